package boltstore

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/google/uuid"
	"go.etcd.io/bbolt"

	"github.com/project-locks/gateway/lockcore"
)

// The file has two buckets, numbers big-endian, times in milliseconds since 1970:
//
//	leases  project (16 bytes) + key → owner (16) fence (8) expires (8) deadline (8)
//	fences  project (16 bytes)       → last fencing token (8)
var (
	leasesBucket = []byte("leases")
	fencesBucket = []byte("fences")
)

const leaseSize = 16 + 3*8

func makeBuckets(tx *bbolt.Tx) error {
	for _, name := range [][]byte{leasesBucket, fencesBucket} {
		if _, err := tx.CreateBucketIfNotExists(name); err != nil {
			return err
		}
	}
	return nil
}

func leaseKey(project uuid.UUID, key string) []byte {
	return append(project[:], key...)
}

func load(tx *bbolt.Tx, project uuid.UUID, key string) (lockcore.State, error) {
	lease, err := decodeLease(tx.Bucket(leasesBucket).Get(leaseKey(project, key)))
	if err != nil {
		return lockcore.State{}, err
	}
	fence, err := decodeFence(tx.Bucket(fencesBucket).Get(project[:]))
	return lockcore.State{Lease: lease, LastFence: fence}, err
}

// save writes what differs.
func save(tx *bbolt.Tx, project uuid.UUID, key string, before, after lockcore.State) error {
	if after.LastFence != before.LastFence {
		fence := binary.BigEndian.AppendUint64(nil, uint64(after.LastFence)) //nolint:gosec // never negative
		if err := tx.Bucket(fencesBucket).Put(project[:], fence); err != nil {
			return err
		}
	}
	leases := tx.Bucket(leasesBucket)
	switch after.Lease {
	case before.Lease:
		return nil
	case lockcore.Lease{}:
		return leases.Delete(leaseKey(project, key))
	default:
		return leases.Put(leaseKey(project, key), encodeLease(after.Lease))
	}
}

func encodeLease(l lockcore.Lease) []byte {
	b := append(make([]byte, 0, leaseSize), l.Owner[:]...)
	for _, n := range []int64{l.Fence, l.ExpiresAt.UnixMilli(), l.Deadline.UnixMilli()} {
		b = binary.BigEndian.AppendUint64(b, uint64(n)) //nolint:gosec // never negative
	}
	return b
}

func decodeLease(b []byte) (lockcore.Lease, error) {
	if b == nil {
		return lockcore.Lease{}, nil
	}
	if len(b) != leaseSize {
		return lockcore.Lease{}, fmt.Errorf("a lease record has %d bytes instead of %d", len(b), leaseSize)
	}
	return lockcore.Lease{
		Owner:     uuid.UUID(b[:16]),
		Fence:     decodeInt(b[16:]),
		ExpiresAt: time.UnixMilli(decodeInt(b[24:])).UTC(),
		Deadline:  time.UnixMilli(decodeInt(b[32:])).UTC(),
	}, nil
}

func decodeFence(b []byte) (int64, error) {
	if b == nil {
		return 0, nil
	}
	if len(b) != 8 {
		return 0, fmt.Errorf("a fencing record has %d bytes instead of 8", len(b))
	}
	return decodeInt(b), nil
}

func decodeInt(b []byte) int64 { return int64(binary.BigEndian.Uint64(b)) } //nolint:gosec // written by encodeLease
