package kafka

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// isoDuration is what java.time.Duration.parse reads, which is what Kafka means
// by an ISO 8601 duration: days of 24 hours, signs, and a fraction of the seconds,
// but no years, months or weeks.
var isoDuration = regexp.MustCompile(`(?i)^([-+])?P(?:([-+]?[0-9]+)D)?(T(?:([-+]?[0-9]+)H)?(?:([-+]?[0-9]+)M)?(?:([-+]?[0-9]+)(?:[.,]([0-9]{0,9}))?S)?)?$`)

// parseISODuration reads a duration such as "P2DT3H4M5.006S". It may be negative.
func parseISODuration(s string) (time.Duration, error) {
	m := isoDuration.FindStringSubmatch(s)
	if m == nil || len(m[3]) == 1 || m[2]+m[3] == "" {
		return 0, errors.New(`not an ISO 8601 duration: the form is "P2DT3H4M5.006S", with at least one of its parts`)
	}
	total := new(big.Int)
	for _, part := range []struct {
		digits string
		unit   time.Duration
	}{
		{m[2], 24 * time.Hour},
		{m[4], time.Hour},
		{m[5], time.Minute},
		{m[6], time.Second},
		{fraction(m[6], m[7]), time.Nanosecond},
	} {
		if part.digits == "" {
			continue
		}
		n, ok := parsePart(part.digits)
		if !ok {
			return 0, durationRangeError()
		}
		n.Mul(n, big.NewInt(int64(part.unit)))
		total.Add(total, n)
	}
	if m[1] == "-" {
		total.Neg(total)
	}
	if !total.IsInt64() {
		return 0, durationRangeError()
	}
	return time.Duration(total.Int64()), nil
}

// parsePart bounds the digits first: big.Int takes time that is quadratic in them.
func parsePart(digits string) (*big.Int, bool) {
	n, err := strconv.ParseInt(digits, 10, 64)
	return big.NewInt(n), err == nil
}

// fraction returns the digits behind the seconds' point as nanoseconds, with the
// seconds' sign.
func fraction(seconds, digits string) string {
	if digits == "" {
		return ""
	}
	sign := ""
	if strings.HasPrefix(seconds, "-") {
		sign = "-"
	}
	return sign + (digits + "000000000")[:9]
}

func durationRangeError() error {
	return fmt.Errorf("duration is out of range: the longest is %s", formatISODuration(math.MaxInt64))
}

// formatISODuration writes a duration as java.time.Duration prints it, such as
// "PT51H4M5.006S", each part with the sign of d.
func formatISODuration(d time.Duration) string {
	if d == 0 {
		return "PT0S"
	}
	var b strings.Builder
	b.WriteString("PT")
	if h := d / time.Hour; h != 0 {
		fmt.Fprintf(&b, "%dH", h)
	}
	if m := d % time.Hour / time.Minute; m != 0 {
		fmt.Fprintf(&b, "%dM", m)
	}
	rest := d % time.Minute
	if rest == 0 {
		return b.String()
	}
	if rest < 0 {
		b.WriteByte('-')
		rest = -rest
	}
	fmt.Fprintf(&b, "%d", rest/time.Second)
	if nanos := rest % time.Second; nanos != 0 {
		b.WriteString("." + strings.TrimRight(fmt.Sprintf("%09d", int64(nanos)), "0"))
	}
	b.WriteByte('S')
	return b.String()
}
