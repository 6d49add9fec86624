package kafka

import "reflect"

// An unbuiltField is a part of Config that has its name and place, but that this
// version does not support. Ignoring it would be worse than refusing it.
type unbuiltField struct {
	field string
	what  string               // what is not built yet
	used  func(c *Config) bool // whether c asks for it; nil: the field is not zero
}

// unbuiltFields are all of them.
var unbuiltFields = []unbuiltField{
	{field: "GroupProtocol", what: `"consumer" is not built yet`, used: func(c *Config) bool {
		return c.GroupProtocol == GroupProtocolConsumer
	}},
	{field: "GroupRemoteAssignor", what: notBuilt},
}

const notBuilt = "this is not built yet"

// in tells whether c asks for what is not built.
func (u unbuiltField) in(c *Config) bool {
	if u.used != nil {
		return u.used(c)
	}
	return !reflect.ValueOf(c).Elem().FieldByName(u.field).IsZero()
}
