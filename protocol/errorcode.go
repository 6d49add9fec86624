package protocol

import "fmt"

// ErrorCode is the result code that a broker puts into a response. It is an
// error, so errors.Is(err, protocol.NotCoordinator) works on everything that
// wraps one. Codes that this package does not know keep their number.
type ErrorCode int16

// Err returns nil for None and the code itself for every other value.
func (c ErrorCode) Err() error {
	if c == None {
		return nil
	}
	return c
}

// Name returns Kafka's name of the code, such as "NOT_COORDINATOR", or
// "UNKNOWN_CODE" for a code that this package does not know.
func (c ErrorCode) Name() string {
	if info, ok := c.info(); ok {
		return info.name
	}
	return "UNKNOWN_CODE"
}

// Error returns the name, the number and what the code means:
// "NOT_COORDINATOR (16): the broker is not the coordinator of the group".
func (c ErrorCode) Error() string {
	info, ok := c.info()
	if !ok {
		return fmt.Sprintf("UNKNOWN_CODE (%d)", int16(c))
	}
	return fmt.Sprintf("%s (%d): %s", info.name, int16(c), info.text)
}

// Retriable reports whether the same request may succeed later without the
// application doing anything. Unknown codes are not retriable.
func (c ErrorCode) Retriable() bool {
	info, ok := c.info()
	return ok && info.retriable
}

type errorCodeInfo struct {
	name      string
	retriable bool
	text      string
}

func (c ErrorCode) info() (errorCodeInfo, bool) {
	// UnknownServerError, -1, is the table's first entry.
	i := int(c) + 1
	if i < 0 || i >= len(errorCodes) {
		return errorCodeInfo{}, false
	}
	return errorCodes[i], true
}

// The codes of Kafka 4.4, under Kafka's names.
const (
	UnknownServerError                     ErrorCode = -1
	None                                   ErrorCode = 0
	OffsetOutOfRange                       ErrorCode = 1
	CorruptMessage                         ErrorCode = 2
	UnknownTopicOrPartition                ErrorCode = 3
	InvalidFetchSize                       ErrorCode = 4
	LeaderNotAvailable                     ErrorCode = 5
	NotLeaderOrFollower                    ErrorCode = 6
	RequestTimedOut                        ErrorCode = 7
	BrokerNotAvailable                     ErrorCode = 8
	ReplicaNotAvailable                    ErrorCode = 9
	MessageTooLarge                        ErrorCode = 10
	StaleControllerEpoch                   ErrorCode = 11
	OffsetMetadataTooLarge                 ErrorCode = 12
	NetworkException                       ErrorCode = 13
	CoordinatorLoadInProgress              ErrorCode = 14
	CoordinatorNotAvailable                ErrorCode = 15
	NotCoordinator                         ErrorCode = 16
	InvalidTopicException                  ErrorCode = 17
	RecordListTooLarge                     ErrorCode = 18
	NotEnoughReplicas                      ErrorCode = 19
	NotEnoughReplicasAfterAppend           ErrorCode = 20
	InvalidRequiredAcks                    ErrorCode = 21
	IllegalGeneration                      ErrorCode = 22
	InconsistentGroupProtocol              ErrorCode = 23
	InvalidGroupID                         ErrorCode = 24
	UnknownMemberID                        ErrorCode = 25
	InvalidSessionTimeout                  ErrorCode = 26
	RebalanceInProgress                    ErrorCode = 27
	InvalidCommitOffsetSize                ErrorCode = 28
	TopicAuthorizationFailed               ErrorCode = 29
	GroupAuthorizationFailed               ErrorCode = 30
	ClusterAuthorizationFailed             ErrorCode = 31
	InvalidTimestamp                       ErrorCode = 32
	UnsupportedSaslMechanism               ErrorCode = 33
	IllegalSaslState                       ErrorCode = 34
	UnsupportedVersion                     ErrorCode = 35
	TopicAlreadyExists                     ErrorCode = 36
	InvalidPartitions                      ErrorCode = 37
	InvalidReplicationFactor               ErrorCode = 38
	InvalidReplicaAssignment               ErrorCode = 39
	InvalidConfig                          ErrorCode = 40
	NotController                          ErrorCode = 41
	InvalidRequest                         ErrorCode = 42
	UnsupportedForMessageFormat            ErrorCode = 43
	PolicyViolation                        ErrorCode = 44
	OutOfOrderSequenceNumber               ErrorCode = 45
	DuplicateSequenceNumber                ErrorCode = 46
	InvalidProducerEpoch                   ErrorCode = 47
	InvalidTxnState                        ErrorCode = 48
	InvalidProducerIDMapping               ErrorCode = 49
	InvalidTransactionTimeout              ErrorCode = 50
	ConcurrentTransactions                 ErrorCode = 51
	TransactionCoordinatorFenced           ErrorCode = 52
	TransactionalIDAuthorizationFailed     ErrorCode = 53
	SecurityDisabled                       ErrorCode = 54
	OperationNotAttempted                  ErrorCode = 55
	KafkaStorageError                      ErrorCode = 56
	LogDirNotFound                         ErrorCode = 57
	SaslAuthenticationFailed               ErrorCode = 58
	UnknownProducerID                      ErrorCode = 59
	ReassignmentInProgress                 ErrorCode = 60
	DelegationTokenAuthDisabled            ErrorCode = 61
	DelegationTokenNotFound                ErrorCode = 62
	DelegationTokenOwnerMismatch           ErrorCode = 63
	DelegationTokenRequestNotAllowed       ErrorCode = 64
	DelegationTokenAuthorizationFailed     ErrorCode = 65
	DelegationTokenExpired                 ErrorCode = 66
	InvalidPrincipalType                   ErrorCode = 67
	NonEmptyGroup                          ErrorCode = 68
	GroupIDNotFound                        ErrorCode = 69
	FetchSessionIDNotFound                 ErrorCode = 70
	InvalidFetchSessionEpoch               ErrorCode = 71
	ListenerNotFound                       ErrorCode = 72
	TopicDeletionDisabled                  ErrorCode = 73
	FencedLeaderEpoch                      ErrorCode = 74
	UnknownLeaderEpoch                     ErrorCode = 75
	UnsupportedCompressionType             ErrorCode = 76
	StaleBrokerEpoch                       ErrorCode = 77
	OffsetNotAvailable                     ErrorCode = 78
	MemberIDRequired                       ErrorCode = 79
	PreferredLeaderNotAvailable            ErrorCode = 80
	GroupMaxSizeReached                    ErrorCode = 81
	FencedInstanceID                       ErrorCode = 82
	EligibleLeadersNotAvailable            ErrorCode = 83
	ElectionNotNeeded                      ErrorCode = 84
	NoReassignmentInProgress               ErrorCode = 85
	GroupSubscribedToTopic                 ErrorCode = 86
	InvalidRecord                          ErrorCode = 87
	UnstableOffsetCommit                   ErrorCode = 88
	ThrottlingQuotaExceeded                ErrorCode = 89
	ProducerFenced                         ErrorCode = 90
	ResourceNotFound                       ErrorCode = 91
	DuplicateResource                      ErrorCode = 92
	UnacceptableCredential                 ErrorCode = 93
	InconsistentVoterSet                   ErrorCode = 94
	InvalidUpdateVersion                   ErrorCode = 95
	FeatureUpdateFailed                    ErrorCode = 96
	PrincipalDeserializationFailure        ErrorCode = 97
	SnapshotNotFound                       ErrorCode = 98
	PositionOutOfRange                     ErrorCode = 99
	UnknownTopicID                         ErrorCode = 100
	DuplicateBrokerRegistration            ErrorCode = 101
	BrokerIDNotRegistered                  ErrorCode = 102
	InconsistentTopicID                    ErrorCode = 103
	InconsistentClusterID                  ErrorCode = 104
	TransactionalIDNotFound                ErrorCode = 105
	FetchSessionTopicIDError               ErrorCode = 106
	IneligibleReplica                      ErrorCode = 107
	NewLeaderElected                       ErrorCode = 108
	OffsetMovedToTieredStorage             ErrorCode = 109
	FencedMemberEpoch                      ErrorCode = 110
	UnreleasedInstanceID                   ErrorCode = 111
	UnsupportedAssignor                    ErrorCode = 112
	StaleMemberEpoch                       ErrorCode = 113
	MismatchedEndpointType                 ErrorCode = 114
	UnsupportedEndpointType                ErrorCode = 115
	UnknownControllerID                    ErrorCode = 116
	UnknownSubscriptionID                  ErrorCode = 117
	TelemetryTooLarge                      ErrorCode = 118
	InvalidRegistration                    ErrorCode = 119
	TransactionAbortable                   ErrorCode = 120
	InvalidRecordState                     ErrorCode = 121
	ShareSessionNotFound                   ErrorCode = 122
	InvalidShareSessionEpoch               ErrorCode = 123
	FencedStateEpoch                       ErrorCode = 124
	InvalidVoterKey                        ErrorCode = 125
	DuplicateVoter                         ErrorCode = 126
	VoterNotFound                          ErrorCode = 127
	InvalidRegularExpression               ErrorCode = 128
	RebootstrapRequired                    ErrorCode = 129
	StreamsInvalidTopology                 ErrorCode = 130
	StreamsInvalidTopologyEpoch            ErrorCode = 131
	StreamsTopologyFenced                  ErrorCode = 132
	ShareSessionLimitReached               ErrorCode = 133
	GroupDeletionFailed                    ErrorCode = 134
	StreamsTopologyDescriptionUpdateFailed ErrorCode = 135
	ControllerIDNotRegistered              ErrorCode = 136
)
