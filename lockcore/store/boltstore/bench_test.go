package boltstore

import (
	"encoding/binary"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/project-locks/gateway/lockcore/store/storetest"
)

// BenchmarkDecide compares the store with bare group commits: the same file,
// one record of the same size put per caller. Compare within one run.
func BenchmarkDecide(b *testing.B) {
	b.Run("store at 64 callers", func(b *testing.B) {
		s, err := open(filepath.Join(b.TempDir(), "locks.db"), time.Now)
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close() //nolint:errcheck // a benchmark
		storetest.Bench(b, s)
	})
	b.Run("bare group commits", func(b *testing.B) {
		s, err := open(filepath.Join(b.TempDir(), "locks.db"), time.Now)
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close() //nolint:errcheck // a benchmark
		puts := make(chan bare, storetest.BenchCallers)
		defer close(puts)
		go commitBare(s.db, puts)
		var next atomic.Uint64
		storetest.Callers(b, func() error {
			put := bare{key: next.Add(1) % 10_000, done: make(chan error)}
			puts <- put
			return <-put.done
		})
	})
}

type bare struct {
	key  uint64
	done chan error
}

func commitBare(db *bbolt.DB, puts <-chan bare) {
	value := make([]byte, leaseSize)
	for first := range puts {
		batch := []bare{first}
		for more := true; more; {
			select {
			case put := <-puts:
				batch = append(batch, put)
			default:
				more = false
			}
		}
		err := db.Update(func(tx *bbolt.Tx) error {
			for _, put := range batch {
				if err := tx.Bucket(leasesBucket).Put(binary.BigEndian.AppendUint64(nil, put.key), value); err != nil {
					return err
				}
			}
			return nil
		})
		for _, put := range batch {
			put.done <- err
		}
	}
}
