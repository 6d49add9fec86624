//go:build unix

// Package sidebyside runs the same scripts of calls through kafka-python and through this
// library, against one broker, and compares what the two observe, line by line.
//
// A script is a text file in testdata. Its comment says what it is about. Each line is a
// step: words with spaces between. A step that begins with a consumer's name, one letter,
// is a call of that consumer; the others change the cluster, for each of the two clients in
// the same way:
//
//	topic NAME PARTITIONS [config=value]   create a topic
//	records TOPIC/N COUNT [options]        produce values "0", "1", …; see produce
//	record TOPIC/N [options]               produce one record; see produce
//	delete-records TOPIC/N OFFSET          move the beginning of the log
//	add-partitions TOPIC TOTAL             grow a topic
//	commit-for GROUP TOPIC/N OFFSET [TEXT] commit for a group without members
//	transaction TOPIC/N KIND COUNT         KIND is commit, abort or open
//	shared                                 first of all: both use the same topics; without groups
//	group GROUP                            tell what the group has committed, and its members; where the
//	                                       script says that, it may take a while
//
//	a new [TOPIC…] [parameter=value…]      a consumer, with kafka-python's parameters
//	a poll N [ms=…] [max=…]                poll until N records came, or the time is over
//	a sizes N [max=…]                      likewise, telling how many each poll returned
//	a until-assigned [TOPIC/N…] [then=…]   poll until they, or any, are assigned, and on until a position, TOPIC/N@OFFSET
//	a until-position TOPIC/N OFFSET        poll until this is the position; until-highwater and until-committed likewise
//	a iterate N                            N records of an iteration
//	…                                      see calls
//
// within=MS bounds a call that waits.
//
// Indented lines belong to the step above:
//
//	= LINE               both observe this
//	kafka-python: LINE   only the original does
//	here: LINE           only this library does
//	why: WORDS           the words in bold by which docs/porting-from-kafka-python.md lists the difference
//
// A step whose clients differ without being declared to fails, and so does one that is
// declared to and does not.
package sidebyside
