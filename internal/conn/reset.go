package conn

// Reset closes the connection of a shared role, if one is open, because the broker
// holds a request on it that nobody waits for any more: it would answer no other
// before. What is unanswered fails with [ErrClosed]. The next request opens a new
// connection.
func (b *Broker) Reset(role Role) {
	if role < 0 || role >= shared {
		return
	}
	b.mu.Lock()
	mux := b.slots[role].mux
	b.slots[role].mux = nil
	b.mu.Unlock()
	if mux != nil {
		mux.end(mux.link.fail(OpClose, ErrClosed))
	}
}
