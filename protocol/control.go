package protocol

import (
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxControlBody bounds what kmsg is given to decode: it checks counts against
// the bytes left, but allocates a multiple of them.
const maxControlBody = 16 << 20

// DecodeResponse decodes the body of a control-plane response, that is what
// follows the response header, into resp, whose version has been set. A body
// of more than 16 MiB is refused, except that of Metadata, whose every count
// is checked first. Byte fields of resp point into body, so body belongs to
// resp from then on. The error is a *MalformedError.
func DecodeResponse(resp kmsg.Response, body []byte) error {
	if resp.Key() == KeyMetadata {
		if err := checkMetadata(body, resp.GetVersion()); err != nil {
			return err
		}
	} else if len(body) > maxControlBody {
		return &MalformedError{
			API: APIName(resp.Key()), Field: "size", Offset: -1,
			Reason: fmt.Sprintf("%d bytes are more than the %d allowed", len(body), maxControlBody),
		}
	}
	if err := resp.ReadFrom(body); err != nil {
		return &MalformedError{API: APIName(resp.Key()), Field: "body", Offset: -1, Reason: err.Error()}
	}
	return nil
}

// A walker goes through a message that is wholly there, without decoding it.
// After the first fault it finds nothing more.
type walker struct {
	body     []byte
	pos      int
	flexible bool
	err      error
}

// checkMetadata goes through a Metadata response and checks that all that its
// counts promise is there.
func checkMetadata(body []byte, version int16) error {
	w := &walker{body: body, flexible: version >= 9}
	if version >= 3 {
		w.skip("throttle time", 4)
	}
	w.metadataBrokers(version)
	if version >= 2 {
		w.text("cluster id")
	}
	if version >= 1 {
		w.skip("controller", 4)
	}
	w.metadataTopics(version)
	if version >= 8 && version <= 10 {
		w.skip("authorized operations", 4)
	}
	if version >= 13 {
		w.skip("error code", 2)
	}
	w.tags()
	return w.err
}

func (w *walker) metadataBrokers(version int16) {
	for n := w.count("brokers", 4+w.minText()+4); n > 0 && w.err == nil; n-- {
		w.skip("node id", 4)
		w.text("host")
		w.skip("port", 4)
		if version >= 1 {
			w.text("rack")
		}
		w.tags()
	}
}

func (w *walker) metadataTopics(version int16) {
	for n := w.count("topics", 2+w.minText()+w.minArray()); n > 0 && w.err == nil; n-- {
		w.skip("error code", 2)
		w.text("topic")
		if version >= 10 {
			w.skip("topic id", 16)
		}
		if version >= 1 {
			w.skip("is internal", 1)
		}
		w.metadataPartitions(version)
		if version >= 8 {
			w.skip("authorized operations", 4)
		}
		w.tags()
	}
}

func (w *walker) metadataPartitions(version int16) {
	for n := w.count("partitions", 2+4+4+2*w.minArray()); n > 0 && w.err == nil; n-- {
		w.skip("error code", 2)
		w.skip("partition", 4)
		w.skip("leader", 4)
		if version >= 7 {
			w.skip("leader epoch", 4)
		}
		w.skip("replicas", 4*w.count("replicas", 4))
		w.skip("in-sync replicas", 4*w.count("in-sync replicas", 4))
		if version >= 5 {
			w.skip("offline replicas", 4*w.count("offline replicas", 4))
		}
		w.tags()
	}
}

func (w *walker) minText() int {
	if w.flexible {
		return 1
	}
	return 2
}

func (w *walker) minArray() int {
	if w.flexible {
		return 1
	}
	return 4
}

func (w *walker) left() int { return len(w.body) - w.pos }

func (w *walker) fail(field, format string, args ...any) {
	if w.err == nil {
		w.err = &MalformedError{
			API: APIName(KeyMetadata), Field: field, Offset: w.pos, Reason: fmt.Sprintf(format, args...),
		}
	}
}

func (w *walker) skip(field string, n int) {
	// Where int has 32 bits a length beyond 2 GiB is negative.
	if n < 0 || n > w.left() {
		w.fail(field, "needs %d bytes, %d are left", n, w.left())
	}
	if w.err == nil {
		w.pos += n
	}
}

// count reads the count of an array and checks it against the smallest size
// of an element.
func (w *walker) count(field string, minSize int) int {
	n := w.length(field, 4)
	if n <= 0 {
		return 0
	}
	if int64(n)*int64(minSize) > int64(w.left()) {
		w.fail(field, "%d elements of at least %d bytes, %d bytes are left", n, minSize, w.left())
		return 0
	}
	return n
}

func (w *walker) text(field string) {
	if n := w.length(field, 2); n > 0 {
		w.skip(field, n)
	}
}

// tags passes over tagged fields.
func (w *walker) tags() {
	if !w.flexible {
		return
	}
	for n := w.uvarint("tags"); n > 0 && w.err == nil; n-- {
		w.uvarint("tag")
		w.skip("tagged field", int(w.uvarint("tagged field")))
	}
}

// length reads a length; the plain form has plainSize bytes.
func (w *walker) length(field string, plainSize int) int {
	if w.flexible {
		return int(w.uvarint(field)) - 1
	}
	if w.left() < plainSize {
		w.fail(field, "needs %d bytes, %d are left", plainSize, w.left())
	}
	if w.err != nil {
		return 0
	}
	b := w.body[w.pos:]
	w.pos += plainSize
	if plainSize == 2 {
		return int(int16(binary.BigEndian.Uint16(b)))
	}
	return int(int32(binary.BigEndian.Uint32(b)))
}

func (w *walker) uvarint(field string) uint32 {
	if w.err != nil {
		return 0
	}
	v, n := binary.Uvarint(w.body[w.pos:min(w.pos+5, len(w.body))])
	if n <= 0 || v > 1<<32-1 {
		w.fail(field, "not a varint of 32 bits")
		return 0
	}
	w.pos += n
	return uint32(v)
}
