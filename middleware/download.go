package middleware

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
)

// download is a response body on its way to the client.
type download struct {
	x       *exchange
	before  []byte // was read already
	client  interface{ SetWriteDeadline(time.Time) error }
	direct  io.Writer     // where WriteTo writes instead; may be nil
	stall   time.Duration // for how long the client may take nothing
	renewed time.Time
}

var _ fasthttp.BodyWriterTo = (*download)(nil)

// SupportsBodyWriteTo makes the server use WriteTo.
func (*download) SupportsBodyWriteTo() bool { return true }

// Read is what the server uses otherwise.
func (d *download) Read(p []byte) (int, error) { return d.x.response.Body.Read(p) }

// WriteTo sends each part of the body when it comes. The server flushes what
// it writes in chunks. Of a body whose length is known it would hold back up
// to 4 KiB, so that one goes to the connection directly, behind the headers,
// which have been flushed.
func (d *download) WriteTo(w io.Writer) (int64, error) {
	if d.direct != nil {
		w = d.direct
	}
	n, err := d.copy(w)
	if err != nil {
		return n, err
	}
	for name, values := range d.x.response.Trailer {
		for _, value := range values {
			d.x.client.Response.Header.Add(name, value)
		}
	}
	return n, nil
}

// untilClosed is for a client that takes the end of the connection for the end
// of the body.
func (d *download) untilClosed(client net.Conn, head []byte) {
	d.client = client
	d.before = append(head, d.before...)
	if _, err := d.copy(client); err != nil {
		abort(client)
	}
}

var downloadBuffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

func (d *download) copy(w io.Writer) (total int64, err error) {
	buffer, _ := downloadBuffers.Get().(*[32 << 10]byte)
	defer downloadBuffers.Put(buffer)
	part := d.before
	for {
		if err := d.renew(); err != nil {
			return total, err
		}
		if len(part) > 0 {
			n, err := w.Write(part)
			if total += int64(n); err != nil {
				return total, err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return total, nil
		case err != nil:
			return total, err
		}
		var n int
		n, err = d.x.response.Body.Read(buffer[:])
		part = buffer[:n]
	}
}

// renew gives the client time to take what comes next.
func (d *download) renew() error {
	now := time.Now()
	if now.Sub(d.renewed) < time.Second {
		return nil
	}
	d.renewed = now
	return d.client.SetWriteDeadline(now.Add(d.stall))
}

// Close ends the exchange. The server calls it when it has sent everything or
// given up.
func (d *download) Close() error {
	d.x.end()
	return nil
}

// abort makes the other side see an error instead of an end.
func abort(c net.Conn) {
	if raw, ok := c.(interface{ UnsafeConn() net.Conn }); ok {
		c = raw.UnsafeConn()
	}
	if tcp, ok := connUnder[interface{ SetLinger(int) error }](c); ok {
		_ = tcp.SetLinger(0) // fails only on a connection that has ended anyway
	}
}
