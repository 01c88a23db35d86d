package middleware

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// webSocket is the one protocol that may be changed to. Through h2c a client
// could send requests to the upstream that nobody here has looked at.
const webSocket = "websocket"

// wantsWebSocket tells whether the client asks for a WebSocket, and for
// nothing else.
func wantsWebSocket(client *fasthttp.RequestCtx) bool {
	header := &client.Request.Header
	return header.IsHTTP11() && strings.EqualFold(joined(client, fiber.HeaderUpgrade), webSocket) &&
		slices.ContainsFunc(strings.Split(joined(client, fiber.HeaderConnection), ","), func(option string) bool {
			return strings.EqualFold(strings.TrimSpace(option), fiber.HeaderUpgrade)
		})
}

// upgrade connects client and upstream.
func (f *Forward) upgrade(c *fiber.Ctx, x *exchange) (goesOn bool, err error) {
	r := x.response
	upstream, ok := r.Body.(io.ReadWriteCloser)
	if !ok || r.Request.Header.Get(fiber.HeaderUpgrade) == "" || !strings.EqualFold(r.Header.Get(fiber.HeaderUpgrade), webSocket) {
		return false, upstreamUnavailable("The upstream changed to a protocol that nobody asked for.", errors.New("unexpected status 101"))
	}
	c.Status(http.StatusSwitchingProtocols) // for who counts answers
	head := upgradeHead(r, string(c.Response().Header.Peek(HeaderRequestID)))
	f.takeOver(x, true, func(client net.Conn) {
		x.watch.end() // reading tells as well
		if _, err := client.Write(head); err == nil {
			f.connect(client, upstream, x)
		}
	})
	return true, nil
}

// upgradeHead is the upstream's answer as the client gets it.
func upgradeHead(r *http.Response, id string) []byte {
	removeHopByHop(r.Header)
	r.Header.Set(fiber.HeaderConnection, "Upgrade")
	r.Header.Set(fiber.HeaderUpgrade, webSocket)
	r.Header.Set(HeaderRequestID, id)
	b := bytes.NewBufferString("HTTP/1.1 101 Switching Protocols\r\n")
	_ = r.Header.Write(b) // a buffer takes everything
	b.WriteString("\r\n")
	return b.Bytes()
}

// connect copies both ways until one side has ended. That ends the other.
func (f *Forward) connect(client net.Conn, upstream io.ReadWriteCloser, x *exchange) {
	var both sync.WaitGroup
	both.Go(func() {
		defer x.end()
		copyMessages(upstream, client, f.renewal(x.upstream))
	})
	both.Go(func() {
		defer x.end()
		copyMessages(client, upstream, f.renewal(client))
	})
	both.Wait()
}

// renewal gives a side some time to take a message. One that takes nothing
// would hide that the other has left.
func (f *Forward) renewal(side net.Conn) func() error {
	return func() error { return side.SetWriteDeadline(time.Now().Add(f.stall)) }
}

// copyMessages copies until an end or an error. Messages are mostly small and
// connections many, so the buffer is small.
func copyMessages(to io.Writer, from io.Reader, renew func() error) {
	buffer := make([]byte, 8<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if renew() != nil {
				return
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
