// Package middleware is everything HTTP: it turns requests into commands for
// the store, and decisions into the answers of the protocol.
//
// Every request to a lock endpoint passes the same checks in the same order:
// request id, credential, permission, quota, then the rest of the request
// (method, key, lock token, body). Counting and deciding are one call of the
// store, so a request that is authenticated but invalid is counted through
// that call too, with a command that does nothing.
//
// Errors are values of type *Problem until WriteError, the one place that
// writes them; whatever is not a *Problem says nothing to the client and
// everything to the log. Texts are fixed: no error quotes the request.
package middleware
