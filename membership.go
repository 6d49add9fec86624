package kafka

// GroupMetadata returns what identifies this consumer in its group now, for
// producers that commit its offsets in a transaction. Errors: ErrNoGroup; an
// *UnsupportedVersionError where brokers have no groups (before Kafka 0.9).
func (c *Consumer) GroupMetadata() (GroupMetadata, error) {
	if c.coord == nil {
		return GroupMetadata{}, ErrNoGroup
	}
	if err := c.coord.groupsNeeded(); err != nil {
		return GroupMetadata{}, err
	}
	return c.coord.groupMetadata(), nil
}

// EnforceRebalance has the group rebalance: this member joins again with the next
// poll. Brokers from 3.2 on log the reason (KIP-800). Errors: ErrNoGroup,
// ErrNotSubscribed, ErrClosed; an *UnsupportedVersionError where brokers have no groups
// (before Kafka 0.9).
func (c *Consumer) EnforceRebalance(reason string) error {
	if err := c.groupCall(); err != nil {
		return err
	}
	if !c.subscribed() {
		return ErrNotSubscribed
	}
	if err := c.coord.groupsNeeded(); err != nil {
		return err
	}
	c.coord.enforceRebalance(reason)
	c.disturb()
	return nil
}
