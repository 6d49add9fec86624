package assignors

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"
)

// nobody stands for a member in lists of members' indexes.
const nobody int32 = -1

// A stickyPlan is an assignment in the making. Members, topics, and the partitions of
// all topics together are known by their index; all are sorted, so that the result
// does not depend on the order of the input.
type stickyPlan struct {
	members []Member
	alike   []bool        // by member: it subscribes to the same as the one before
	classOf []int32       // by member; nobody: it subscribes to nothing that exists
	classes []stickyClass // each set of topics that members subscribe to

	topics     []string // those that exist and that somebody subscribes to
	topicIndex map[string]int32
	partitions [][]Partition // by topic
	first      []int32       // by topic: the index of its first partition; and the end
	topicOf    []int32       // by partition

	holder     []int32 // by partition: whose claim holds
	generation []int32 // by partition: the highest that it was claimed with
	claimed    string  // the topic of the last claim, and its index
	claimedIdx int32

	owner    []int32 // by partition: the result
	withheld []bool  // by partition; nil if none is

	racks map[string]int32 // the members' racks; empty: racks do not matter
}

// A stickyClass is all members with the same subscription.
type stickyClass struct {
	topics []int32
	size   int32
}

func newPlan(in Input) *stickyPlan {
	p := &stickyPlan{members: in.Members, claimedIdx: -1}
	byID := func(a, b Member) int { return strings.Compare(a.ID, b.ID) }
	if !slices.IsSortedFunc(p.members, byID) {
		p.members = slices.Clone(p.members)
		slices.SortFunc(p.members, byID)
	}
	p.alike = make([]bool, len(p.members))
	for i := 1; i < len(p.members); i++ {
		p.alike[i] = slices.Equal(p.members[i].Topics, p.members[i-1].Topics)
	}
	p.addTopics(in)
	p.addClasses()
	p.addRacks()
	return p
}

// addTopics lists the topics that have partitions and subscribers.
func (p *stickyPlan) addTopics(in Input) {
	p.topicIndex = make(map[string]int32, len(in.Topics))
	for i, m := range p.members {
		if p.alike[i] {
			continue
		}
		for _, topic := range m.Topics {
			if len(in.Topics[topic]) > 0 {
				p.topicIndex[topic] = 0
			}
		}
	}
	p.topics = make([]string, 0, len(p.topicIndex))
	for topic := range p.topicIndex {
		p.topics = append(p.topics, topic)
	}
	slices.Sort(p.topics)
	p.partitions = make([][]Partition, len(p.topics))
	p.first = make([]int32, len(p.topics)+1)
	for t, topic := range p.topics {
		p.topicIndex[topic] = int32(t)
		p.partitions[t] = inOrder(in.Topics[topic])
		p.first[t+1] = p.first[t] + int32(len(p.partitions[t]))
	}
	total := p.first[len(p.topics)]
	backing := make([]int32, 4*total)
	p.topicOf, p.holder = backing[:total], backing[total:2*total]
	p.generation, p.owner = backing[2*total:3*total], backing[3*total:]
	for t := range p.topics {
		for i := p.first[t]; i < p.first[t+1]; i++ {
			p.topicOf[i], p.holder[i], p.generation[i], p.owner[i] = int32(t), nobody, -2, nobody
		}
	}
}

// inOrder returns the partitions in order of their ids, each once.
func inOrder(partitions []Partition) []Partition {
	for i := 1; i < len(partitions); i++ {
		if partitions[i-1].ID >= partitions[i].ID {
			partitions = slices.Clone(partitions)
			slices.SortFunc(partitions, func(a, b Partition) int { return cmp.Compare(a.ID, b.ID) })
			return slices.CompactFunc(partitions, func(a, b Partition) bool { return a.ID == b.ID })
		}
	}
	return partitions
}

// addClasses sorts the members by what they subscribe to.
func (p *stickyPlan) addClasses() {
	p.classOf = make([]int32, len(p.members))
	known := make(map[string]int32)
	var key []byte
	for i, m := range p.members {
		if p.alike[i] {
			p.classOf[i] = p.classOf[i-1]
		} else {
			topics := p.subscription(m.Topics)
			key = key[:0]
			for _, t := range topics {
				key = binary.NativeEndian.AppendUint32(key, uint32(t))
			}
			class, ok := known[string(key)]
			switch {
			case len(topics) == 0:
				class = nobody
			case !ok:
				class = int32(len(p.classes))
				p.classes = append(p.classes, stickyClass{topics: topics})
				known[string(key)] = class
			}
			p.classOf[i] = class
		}
		if class := p.classOf[i]; class != nobody {
			p.classes[class].size++
		}
	}
}

// subscription returns the indexes of those topics that exist, sorted.
func (p *stickyPlan) subscription(topics []string) []int32 {
	list := make([]int32, 0, len(topics))
	for _, topic := range topics {
		if t, ok := p.topicIndex[topic]; ok {
			list = append(list, t)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// addRacks numbers the racks of members if any partition has a replica in one.
func (p *stickyPlan) addRacks() {
	racks := make(map[string]int32)
	for _, m := range p.members {
		if _, ok := racks[m.Rack]; !ok && m.Rack != "" {
			racks[m.Rack] = int32(len(racks))
		}
	}
	if len(racks) == 0 {
		return
	}
	for _, partitions := range p.partitions {
		for _, partition := range partitions {
			for _, rack := range partition.Racks {
				if _, ok := racks[rack]; ok {
					p.racks = racks
					return
				}
			}
		}
	}
}

// near reports whether the partition has a replica in the member's rack.
func (p *stickyPlan) near(member, partition int32) bool {
	rack := p.members[member].Rack
	return rack != "" && slices.Contains(p.partition(partition).Racks, rack)
}

func (p *stickyPlan) partition(i int32) *Partition {
	t := p.topicOf[i]
	return &p.partitions[t][i-p.first[t]]
}

// subscribes reports whether a member subscribes to a topic.
func (p *stickyPlan) subscribes(member, topic int32) bool {
	class := p.classOf[member]
	if class == nobody {
		return false
	}
	topics := p.classes[class].topics
	if len(topics) == len(p.topics) {
		return true
	}
	_, ok := slices.BinarySearch(topics, topic)
	return ok
}

// find returns the index of a partition, or false if it does not exist.
func (p *stickyPlan) find(topic, id int32) (int32, bool) {
	ids := p.partitions[topic]
	if id >= 0 && int(id) < len(ids) && ids[id].ID == id {
		return p.first[topic] + id, true
	}
	i, ok := slices.BinarySearchFunc(ids, id, func(a Partition, id int32) int { return cmp.Compare(a.ID, id) })
	return p.first[topic] + int32(i), ok
}

// claimUserData notes what a member had by its user data.
func (p *stickyPlan) claimUserData(member int32, data []byte) {
	generation, ok := stickyGeneration(data)
	if !ok {
		return
	}
	eachStickyTopic(data, func(name, ids []byte) {
		topic, ok := p.topicIndex[string(name)]
		if !ok || !p.subscribes(member, topic) {
			return
		}
		for ; len(ids) > 0; ids = ids[4:] {
			if i, ok := p.find(topic, int32(binary.BigEndian.Uint32(ids))); ok {
				p.claimIndex(member, generation, i)
			}
		}
	})
}

// claim notes that a member had a partition.
func (p *stickyPlan) claim(member, generation int32, topic string, id int32) {
	t := p.topic(topic)
	if t < 0 || !p.subscribes(member, t) {
		return
	}
	if i, ok := p.find(t, id); ok {
		p.claimIndex(member, generation, i)
	}
}

// topic returns the index of a topic, -1 if it does not exist. Most claims are of the
// same topic as the one before.
func (p *stickyPlan) topic(name string) int32 {
	if p.claimedIdx < 0 || name != p.claimed {
		t, ok := p.topicIndex[name]
		if !ok {
			return -1
		}
		p.claimed, p.claimedIdx = name, t
	}
	return p.claimedIdx
}

func (p *stickyPlan) claimIndex(member, generation, i int32) {
	switch {
	case generation > p.generation[i]:
		p.holder[i], p.generation[i] = member, generation
	case generation == p.generation[i] && p.holder[i] != member:
		p.holder[i] = nobody
	}
}

// make fills in the owners.
func (p *stickyPlan) make() {
	switch len(p.classes) {
	case 0:
	case 1:
		newEvenPlan(p).make()
	default:
		newMixedPlan(p).make()
	}
}

// withhold takes a partition from its new owner if the member may still be reading it.
// A claim of a lower generation than the owner's own says nothing: the claimer missed
// that the partition was taken from it.
func (p *stickyPlan) withhold(member, generation int32, tp TopicPartition) {
	t := p.topic(tp.Topic)
	if t < 0 {
		return
	}
	i, ok := p.find(t, tp.Partition)
	if !ok || p.owner[i] == nobody || p.owner[i] == member {
		return
	}
	if p.owner[i] == p.holder[i] && p.generation[i] > generation {
		return
	}
	if p.withheld == nil {
		p.withheld = make([]bool, len(p.owner))
	}
	p.withheld[i] = true
}

// assignment turns the owners into the result.
func (p *stickyPlan) assignment() Assignment {
	counts := make([]int32, len(p.members))
	total := 0
	for i, m := range p.owner {
		if p.withheld != nil && p.withheld[i] {
			p.owner[i] = nobody
		} else if m != nobody {
			counts[m]++
			total++
		}
	}
	all := make([]TopicPartition, total)
	lists := make([][]TopicPartition, len(p.members))
	for m, n := range counts {
		lists[m], all = all[:0:n], all[n:]
	}
	for i, m := range p.owner {
		if m != nobody {
			tp := TopicPartition{Topic: p.topics[p.topicOf[i]], Partition: p.partition(int32(i)).ID}
			lists[m] = append(lists[m], tp)
		}
	}
	assignment := make(Assignment, len(p.members))
	for m, list := range lists {
		if len(list) > 0 {
			assignment[p.members[m].ID] = MemberAssignment{Partitions: list}
		}
	}
	return assignment
}
