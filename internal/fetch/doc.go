// Package fetch decides what to ask which broker and what becomes of the answers.
//
// A Table holds every assigned partition: its position, what was fetched of it
// and waits to be decoded, what is decoded and waits to be handed over. All of it
// is plain data: no sockets, no goroutines, no clock. A Table is not safe for
// concurrent use; the consumer's fetcher holds one lock around each call, and does
// the two slow things, reading an answer and decoding records, outside of it:
//
//	Plan ─► (write, read: ReadAnswer) ─► Apply ─► NextDecode ─► (Decode) ─► DecodeDone ─► Take ─► HandOver
//
// Two offsets per partition run ahead of each other: the position, behind which
// everything was handed over, and the fetch offset, which is known from batch
// headers before the records are checked. Whatever voids one of them (a seek, a
// reset, a fault, a new assignment) changes a counter that late answers carry.
package fetch
