//go:build unix

package proc

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
)

// The ports that tests are given lie below the range from which systems take those of
// outgoing connections, any of which could otherwise get one while nobody listens on it.
// A slot of them is one test binary's.
const (
	firstPort = 10_000
	slots     = 50
	slotPorts = 400
)

var slot struct {
	sync.Mutex
	guard net.Listener // on the slot's first port; nil: there is no slot yet
	first int
	given int
}

// Listen listens on a port of 127.0.0.1 that no other test binary is given, and this one
// not again before long. So it stays free when the listener is closed, for a program that
// is to have it, or to come back to.
func Listen() (net.Listener, error) {
	slot.Lock()
	defer slot.Unlock()
	if slot.guard == nil {
		if err := takeSlot(); err != nil {
			return nil, err
		}
	}
	for range slotPorts - 1 {
		port := slot.first + 1 + slot.given%(slotPorts-1)
		slot.given++
		if l, err := listen(port); err == nil { // else another program has it
			return l, nil
		}
	}
	return nil, fmt.Errorf("no port from %d on is free", slot.first)
}

// takeSlot takes a slot until the end of this process.
func takeSlot() error {
	for first := firstPort; first < firstPort+slots*slotPorts; first += slotPorts {
		if l, err := listen(first); err == nil {
			slot.guard, slot.first = l, first
			return nil
		}
	}
	return errors.New("all ports for tests are taken")
}

func listen(port int) (net.Listener, error) {
	return net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}
