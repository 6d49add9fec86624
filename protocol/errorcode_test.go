package protocol

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestErrorCodeText(t *testing.T) {
	tests := []struct {
		code      ErrorCode
		name      string
		text      string
		retriable bool
	}{
		{UnknownServerError, "UNKNOWN_SERVER_ERROR", "UNKNOWN_SERVER_ERROR (-1): ", false},
		{NotLeaderOrFollower, "NOT_LEADER_OR_FOLLOWER", "NOT_LEADER_OR_FOLLOWER (6): ", true},
		{RebalanceInProgress, "REBALANCE_IN_PROGRESS", "REBALANCE_IN_PROGRESS (27): ", false},
		{FencedInstanceID, "FENCED_INSTANCE_ID", "FENCED_INSTANCE_ID (82): ", false},
		{UnknownTopicID, "UNKNOWN_TOPIC_ID", "UNKNOWN_TOPIC_ID (100): ", true},
		{RebootstrapRequired, "REBOOTSTRAP_REQUIRED", "REBOOTSTRAP_REQUIRED (129): ", false},
		{ControllerIDNotRegistered, "CONTROLLER_ID_NOT_REGISTERED", "CONTROLLER_ID_NOT_REGISTERED (136): ", false},
		{999, "UNKNOWN_CODE", "UNKNOWN_CODE (999)", false},
		{-2, "UNKNOWN_CODE", "UNKNOWN_CODE (-2)", false},
		{-32768, "UNKNOWN_CODE", "UNKNOWN_CODE (-32768)", false},
		{32767, "UNKNOWN_CODE", "UNKNOWN_CODE (32767)", false},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			require.Equal(t, tt.name, tt.code.Name())
			require.Contains(t, tt.code.Error(), tt.text)
			require.Equal(t, tt.retriable, tt.code.Retriable())
		})
	}
}

func TestErrorCodeIsAnErrorThatErrorsIsFinds(t *testing.T) {
	require.NoError(t, None.Err())
	require.ErrorIs(t, NotCoordinator.Err(), NotCoordinator)

	err := fmt.Errorf("commit: %w", IllegalGeneration)
	require.ErrorIs(t, err, IllegalGeneration)
	require.NotErrorIs(t, err, UnknownMemberID)
	code, ok := errors.AsType[ErrorCode](err)
	require.True(t, ok)
	require.Equal(t, IllegalGeneration, code)
}

func TestEveryErrorCodeHasItsOwnNameAndText(t *testing.T) {
	names := make(map[string]ErrorCode)
	for code := UnknownServerError; code <= ControllerIDNotRegistered; code++ {
		info, ok := code.info()
		require.True(t, ok, int16(code))
		require.NotEmpty(t, info.name, int16(code))
		require.NotEmpty(t, info.text, int16(code))
		require.NotContains(t, names, info.name)
		names[info.name] = code
	}
	require.Len(t, names, 138)
}
