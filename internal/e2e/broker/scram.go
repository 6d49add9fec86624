//go:build unix

package broker

import (
	"context"
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"hash"
	"os/exec"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const scramIterations = 4096

type scramUser struct{ name, password string }

type scramMechanism struct {
	name   string
	number int8 // in AlterUserScramCredentials (KIP-554)
	hash   func() hash.Hash
}

var scramMechanisms = []scramMechanism{{"SCRAM-SHA-256", 1, sha256.New}, {"SCRAM-SHA-512", 2, sha512.New}}

// ScramUser adds a user for both mechanisms of SCRAM. With KRaft name and password
// may have any characters.
func ScramUser(name, password string) Option {
	return func(c *config) { c.scramUsers = append(c.scramUsers, scramUser{name, password}) }
}

// alterScramUsers asks a running cluster to take the users.
func (c *Cluster) alterScramUsers() error {
	if len(c.conf.scramUsers) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Bootstrap()...))
	if err != nil {
		return err
	}
	defer client.Close()
	var errs []error
	for _, m := range scramMechanisms { // a request may name each user once
		errs = append(errs, alterScram(ctx, client, m, c.conf.scramUsers))
	}
	return errors.Join(errs...)
}

func alterScram(ctx context.Context, client *kgo.Client, m scramMechanism, users []scramUser) error {
	req := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	for _, u := range users {
		up := kmsg.NewAlterUserSCRAMCredentialsRequestUpsertion()
		up.Name, up.Mechanism, up.Iterations = u.name, m.number, scramIterations
		up.Salt = []byte("salt of " + u.name)
		var err error
		if up.SaltedPassword, err = pbkdf2.Key(m.hash, u.password, up.Salt, scramIterations, m.hash().Size()); err != nil {
			return err
		}
		req.Upsertions = append(req.Upsertions, up)
	}
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	var errs []error
	for _, r := range resp.Results {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			errs = append(errs, fmt.Errorf("add the user %s: %w", r.User, err))
		}
	}
	return errors.Join(errs...)
}

// storeScramUsers writes the users into ZooKeeper before the brokers start.
func (c *Cluster) storeScramUsers() error {
	for _, u := range c.conf.scramUsers {
		args, err := JVM(c.Version, "128m")
		if err != nil {
			return err
		}
		var configs []string
		for _, m := range scramMechanisms {
			configs = append(configs, fmt.Sprintf("%s=[iterations=%d,password=%s]", m.name, scramIterations, u.password))
		}
		args = append(args, "kafka.admin.ConfigCommand", "--zookeeper", c.zookeeper.addr(), "--alter",
			"--entity-type", "users", "--entity-name", u.name, "--add-config", strings.Join(configs, ","))
		ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
		out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput()
		cancel()
		if err != nil {
			return fmt.Errorf("add the user %s: %w\n%s", u.name, err, out)
		}
	}
	return nil
}
