//go:build unix

package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ready waits until each of the nodes answers, and knows of all that run.
func (c *Cluster) ready(nodes []*node) error {
	for _, n := range nodes {
		err := n.poll(startTimeout, func() error {
			running := 0 // of those that its answer must name
			for _, other := range c.nodes {
				if other.process.Running() && !c.version.unlisted {
					running++
				}
			}
			return serves(n.addr(), c.version.metadata, running)
		})
		if err != nil && n.process.Running() {
			return err
		}
		if err != nil {
			return fmt.Errorf("start: %w", err)
		}
	}
	return nil
}

// serves asks one node with messages of its own making, because the library
// under test must not decide whether its broker is up.
func serves(addr string, metadataVersion int16, brokers int) error {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	if metadataVersion > 0 {
		versions := kmsg.NewPtrApiVersionsRequest()
		if err := roundTrip(conn, versions, versions.ResponseKind()); err != nil {
			return err
		}
	}
	request := kmsg.NewPtrMetadataRequest()
	request.SetVersion(metadataVersion)
	response := kmsg.NewPtrMetadataResponse()
	response.SetVersion(metadataVersion)
	if err := roundTrip(conn, request, response); err != nil {
		return err
	}
	if len(response.Brokers) < brokers || metadataVersion > 0 && response.ControllerID < 0 {
		return fmt.Errorf("knows of %d brokers of %d, controller %d", len(response.Brokers), brokers, response.ControllerID)
	}
	return nil
}

// roundTrip sends a request and reads its answer. The header of one to a flexible
// version has an empty list of tags behind the correlation id.
func roundTrip(conn net.Conn, req kmsg.Request, resp kmsg.Response) error {
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID("readiness")).AppendRequest(nil, req, 1)
	if _, err := conn.Write(frame); err != nil {
		return err
	}
	var size [4]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(size[:])
	header := uint32(4)
	if req.IsFlexible() {
		header++
	}
	if n < header || n > 1<<20 {
		return errors.New("not an answer of Kafka")
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(conn, body); err != nil {
		return err
	}
	return resp.ReadFrom(body[header:])
}
