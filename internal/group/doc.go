// Package group decides what a member of a consumer group does next. It does no
// I/O, starts no goroutine and reads no clock: events go in, actions come out, and
// the caller turns answers and timers into events and carries out the actions.
//
// Classic is the machine of the classic protocol (JoinGroup, SyncGroup,
// Heartbeat). A machine of another protocol stands beside it and speaks the same
// events and actions.
package group
