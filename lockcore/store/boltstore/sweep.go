package boltstore

import (
	"bytes"
	"context"
	"log/slog"
	"time"

	"go.etcd.io/bbolt"
)

const (
	sweepSize  = 1000                  // records looked at in one go
	sweepPause = time.Second           // between goes
	sweepHaste = 10 * time.Millisecond // instead, while much of what is found is forgotten
)

// sweepUntil walks over all records, a small batch at a time, and removes
// those that are forgotten: names used once must not fill the file.
func (s *Store) sweepUntil(ctx context.Context) {
	var position []byte
	pause := time.NewTimer(sweepPause)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		next, removed, err := s.sweep(position)
		if err != nil {
			slog.Error("removing forgotten leases failed; they stay until the next round", "error", err)
		}
		position = next
		if removed > sweepSize/4 {
			pause.Reset(sweepHaste)
		} else {
			pause.Reset(sweepPause)
		}
	}
}

// sweep removes the forgotten leases among the records from position on and
// returns the position to go on from, nil for the beginning.
func (s *Store) sweep(position []byte) (next []byte, removed int, err error) {
	var forgotten [][]byte
	err = s.db.View(func(tx *bbolt.Tx) error {
		c := tx.Bucket(leasesBucket).Cursor()
		k, v := c.Seek(position)
		for range sweepSize {
			if k == nil {
				return nil
			}
			if s.isForgotten(v) {
				forgotten = append(forgotten, bytes.Clone(k))
			}
			k, v = c.Next()
		}
		next = bytes.Clone(k)
		return nil
	})
	if err != nil || len(forgotten) == 0 {
		return next, 0, err
	}
	return next, len(forgotten), s.db.Update(func(tx *bbolt.Tx) error {
		leases := tx.Bucket(leasesBucket)
		for _, k := range forgotten {
			if !s.isForgotten(leases.Get(k)) {
				continue // acquired again in between
			}
			if err := leases.Delete(k); err != nil {
				return err
			}
		}
		return nil
	})
}

// isForgotten leaves a record that it cannot read to be reported by the next decision.
func (s *Store) isForgotten(record []byte) bool {
	lease, err := decodeLease(record)
	return err == nil && lease.Forgotten(s.clock.read())
}
