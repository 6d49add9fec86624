//go:build unix

package secure

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kafkaconsumer/kafka"
	"github.com/kafkaconsumer/kafka/protocol"
)

// What the authorizer denies is an error of Poll, at once and with the name.
func TestDeniedTopicsAndGroups(t *testing.T) {
	on(t, func(t *testing.T, f *fixture) {
		f.java.CreateTopic(t, "hidden", 1, nil)
		f.java.CreateTopic(t, "visible", 1, nil)
		const acls = "org.apache.kafka.tools.AclCommand"
		f.tool(t, acls, "--add", "--allow-principal", "User:admin", "--operation", "All", "--topic", "hidden", "--group", "closed")
		f.tool(t, acls, "--add", "--allow-principal", "User:*", "--operation", "Describe", "--topic", "visible")

		open := func(t *testing.T, group string) *kafka.Consumer {
			cfg := f.passwordTo("SASL", "SCRAM-SHA-256", alice, alicePassword)
			cfg.GroupID = group
			c, err := newConsumer(t, cfg)
			require.NoError(t, err)
			return c
		}
		denied := func(t *testing.T, c *kafka.Consumer, code kafka.ErrorCode, name string) {
			requireNextPollFails(t, c, func(err error) {
				require.ErrorIs(t, err, code)
				require.ErrorContains(t, err, name)
			})
		}
		t.Run("a topic that may not be seen", func(t *testing.T) {
			c := open(t, "")
			require.NoError(t, c.Subscribe([]string{"hidden"}))
			denied(t, c, protocol.TopicAuthorizationFailed, "hidden")
			denied(t, c, protocol.TopicAuthorizationFailed, "hidden") // it stands
		})
		t.Run("a topic that may not be seen, in a group", func(t *testing.T) {
			c := open(t, "free")
			require.NoError(t, c.Subscribe([]string{"hidden"}))
			denied(t, c, protocol.TopicAuthorizationFailed, "hidden")
		})
		t.Run("an assigned topic that may not be seen", func(t *testing.T) {
			c := open(t, "")
			require.NoError(t, c.Assign(kafka.TopicPartition{Topic: "hidden"}))
			denied(t, c, protocol.TopicAuthorizationFailed, "hidden")
		})
		t.Run("a topic that may be seen and not read", func(t *testing.T) {
			c := open(t, "")
			require.NoError(t, c.Assign(kafka.TopicPartition{Topic: "visible"}))
			denied(t, c, protocol.TopicAuthorizationFailed, "visible")
		})
		t.Run("a group", func(t *testing.T) {
			c := open(t, "closed")
			require.NoError(t, c.Subscribe([]string{topic}))
			denied(t, c, protocol.GroupAuthorizationFailed, "closed")
			denied(t, c, protocol.GroupAuthorizationFailed, "closed") // it stands
		})
		t.Run("commits of a group", func(t *testing.T) {
			c := open(t, "closed")
			tp := kafka.TopicPartition{Topic: topic}
			require.NoError(t, c.Assign(tp))
			err := c.CommitOffsets(t.Context(), map[kafka.TopicPartition]kafka.OffsetAndMetadata{tp: {Offset: 1}})
			require.ErrorIs(t, err, protocol.GroupAuthorizationFailed)
			require.ErrorContains(t, err, "closed")
			_, err = c.Committed(t.Context(), tp)
			require.ErrorIs(t, err, protocol.GroupAuthorizationFailed)
		})
	})
}
