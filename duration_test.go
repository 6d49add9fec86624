package kafka

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The expectations are what java.time.Duration of JDK 17 answers.
func TestParseISODuration(t *testing.T) {
	tests := []struct {
		text string
		want time.Duration
	}{
		{"PT0S", 0},
		{"PT1S", time.Second},
		{"pt1h30m", 90 * time.Minute},
		{"P1D", 24 * time.Hour},
		{"P2DT3H4M5.006S", 51*time.Hour + 4*time.Minute + 5*time.Second + 6*time.Millisecond},
		{"PT0.000000001S", 1},
		{"PT1.S", time.Second},
		{"PT1,5S", 1500 * time.Millisecond},
		{"PT-1.5S", -1500 * time.Millisecond},
		{"PT-0.5S", -500 * time.Millisecond},
		{"-PT1M", -time.Minute},
		{"-PT-1M", time.Minute},
		{"+PT+1M", time.Minute},
		{"P-1DT1H", -23 * time.Hour},
		{"-PT-6H+3M", 6*time.Hour - 3*time.Minute},
		{"PT90000M", 1500 * time.Hour},
		{"PT9223372036.854775807S", math.MaxInt64},
		{"PT-9223372036.854775808S", math.MinInt64},
		{"-PT9223372036.854775808S", math.MinInt64},
		{"PT2562048H-3600S", 2562047 * time.Hour},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			got, err := parseISODuration(tt.text)
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
}

func TestParseISODurationRefuses(t *testing.T) {
	for _, text := range []string{
		"", "P", "PT", "P1DT", "-P", "1h", "1000", "PT1", "P1S", "P1H", "PT1D", "P1W", "P1M", "P1Y", "PT1S1M", "PT.5S", "PT1.5H",
		"PT1.0000000001S", " PT1S", "PT1S ", "PT1S\n", "PT１S", "P T1S", "--PT1S",
	} {
		_, err := parseISODuration(text)
		require.ErrorContains(t, err, "not an ISO 8601 duration", text)
	}
	for _, text := range []string{
		"PT9223372036.854775808S", "PT-9223372036.854775809S", "P106752D", "PT99999999999999999999S", "P" + strings.Repeat("9", 10000) + "D",
	} {
		_, err := parseISODuration(text)
		require.ErrorContains(t, err, "out of range: the longest is PT2562047H47M16.854775807S", text[:8])
	}
}

func TestFormatISODuration(t *testing.T) {
	tests := map[time.Duration]string{
		0:                          "PT0S",
		1:                          "PT0.000000001S",
		time.Second:                "PT1S",
		1500 * time.Millisecond:    "PT1.5S",
		-1500 * time.Millisecond:   "PT-1.5S",
		-500 * time.Millisecond:    "PT-0.5S",
		time.Hour:                  "PT1H",
		51*time.Hour + time.Minute: "PT51H1M",
		-time.Hour - time.Second:   "PT-1H-1S",
		math.MaxInt64:              "PT2562047H47M16.854775807S",
		math.MinInt64:              "PT-2562047H-47M-16.854775808S",
	}
	for d, want := range tests {
		require.Equal(t, want, formatISODuration(d))
	}
}

func TestOffsetResetReadsWhatItPrints(t *testing.T) {
	for _, r := range []OffsetReset{ResetLatest, ResetEarliest, ResetNone, ResetByDuration(0), ResetByDuration(36 * time.Hour)} {
		got, err := ParseOffsetReset(r.String())
		require.NoError(t, err)
		require.Equal(t, r, got)
	}
	got, err := ParseOffsetReset("BY_DURATION:p1dt12h")
	require.NoError(t, err)
	require.Equal(t, ResetByDuration(36*time.Hour), got)

	for _, text := range []string{"", "smallest", "by_duration", "by_duration:", "by_duration:1h", "by_duration:PT"} {
		_, err := ParseOffsetReset(text)
		require.Error(t, err, text)
	}
}

func FuzzISODuration(f *testing.F) {
	for _, s := range []string{"P2DT3H4M5.006S", "-PT-1.5S", "PT9223372036.854775807S", "P", "PT1,S"} {
		f.Add(s, int64(len(s))*1_000_000_007)
	}
	f.Fuzz(func(t *testing.T, text string, nanos int64) {
		got, err := parseISODuration(formatISODuration(time.Duration(nanos)))
		require.NoError(t, err)
		require.Equal(t, time.Duration(nanos), got)

		d, err := parseISODuration(text)
		if err != nil {
			return
		}
		again, err := parseISODuration(formatISODuration(d))
		require.NoError(t, err)
		require.Equal(t, d, again)
	})
}
