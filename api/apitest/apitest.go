// Package apitest holds what a gateway answers against the OpenAPI document.
//
// It is stricter than the library that it uses: an answer may have no header and no body that the
// document does not mention.
package apitest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"

	"github.com/project-locks/gateway/api"
)

// Document is the OpenAPI document, checked against the rules for such documents.
type Document struct {
	Spec       *openapi3.T
	router     routers.Router
	operations map[string]*openapi3.Operation // by operationId
}

// Open parses the document.
func Open(t testing.TB) *Document {
	t.Helper()
	spec, err := openapi3.NewLoader().LoadFromData(api.Document)
	if err != nil {
		t.Fatal(err)
	}
	if err := spec.Validate(context.Background()); err != nil {
		t.Fatal(err)
	}
	spec.Servers = nil // the paths hold wherever a gateway listens
	d := &Document{Spec: spec, operations: map[string]*openapi3.Operation{}}
	for _, path := range spec.Paths.Map() {
		for _, operation := range path.Operations() {
			d.operations[operation.OperationID] = operation
		}
	}
	if d.router, err = legacy.NewRouter(spec); err != nil {
		t.Fatal(err)
	}
	d.operations[Forwarded] = forwarded(t, spec)
	return d
}

// Forwarded stands for the requests that are not for locks.
const Forwarded = "forwarded"

// forwarded makes an operation of the extension for which OpenAPI has no place.
func forwarded(t testing.TB, spec *openapi3.T) *openapi3.Operation {
	t.Helper()
	statuses, ok := spec.Extensions["x-forwarded"].(map[string]any)
	if !ok {
		t.Fatalf("the document has no x-forwarded, or not as it should be: %v", spec.Extensions)
	}
	responses := openapi3.NewResponsesWithCapacity(len(statuses))
	for status, name := range statuses {
		response := spec.Components.Responses[fmt.Sprint(name)]
		if response == nil {
			t.Fatalf("x-forwarded names %v, which there is not", name)
		}
		responses.Set(status, response)
	}
	return &openapi3.Operation{OperationID: Forwarded, Responses: responses}
}

// Responses are what the document says of an operation.
func (d *Document) Responses(operation string) *openapi3.Responses {
	return d.operations[operation].Responses
}

// Operations are the ids of the operations with their documented statuses.
func (d *Document) Operations() map[string][]string {
	all := map[string][]string{}
	for id, operation := range d.operations {
		all[id] = slices.Sorted(slices.Values(operation.Responses.Keys()))
	}
	return all
}

// Answer is what came back for an operation.
type Answer struct {
	Operation string // its id
	Status    int
	Header    http.Header
	Body      string
}

// transport are the headers of HTTP itself.
var transport = []string{"Connection", "Content-Length", "Content-Type", "Date", "Transfer-Encoding"}

// Check says in what an answer is not as the document has it.
func (d *Document) Check(a Answer) error {
	documented := d.Responses(a.Operation).Status(a.Status)
	if documented == nil {
		return fmt.Errorf("%s: the document does not know the status %d", a.Operation, a.Status)
	}
	response := documented.Value
	var wrong []error
	for name, values := range a.Header {
		isIt := func(known string) bool { return http.CanonicalHeaderKey(known) == name }
		switch {
		case slices.Contains(transport, name):
		case !slices.ContainsFunc(slices.Collect(maps.Keys(response.Headers)), isIt):
			wrong = append(wrong, fmt.Errorf("the document does not know the header %s", name))
		case len(values) != 1:
			wrong = append(wrong, fmt.Errorf("the header %s is there %d times", name, len(values)))
		}
	}
	if a.Body != "" && len(response.Content) == 0 {
		wrong = append(wrong, errors.New("the document does not know a body"))
	}
	if err := errors.Join(append(wrong, d.validate(a))...); err != nil {
		return fmt.Errorf("%s, %d: %w", a.Operation, a.Status, err)
	}
	return nil
}

// validate leaves to the library what it knows: required headers, and the values of headers and body.
func (d *Document) validate(a Answer) error {
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{
			Request: &http.Request{Method: http.MethodGet}, // for the library: the answer has a body
			Route:   &routers.Route{Spec: d.Spec, Operation: d.operations[a.Operation]},
		},
		Status: a.Status, Header: a.Header,
		Body:    io.NopCloser(strings.NewReader(a.Body)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true},
	}
	return openapi3filter.ValidateResponse(context.Background(), input)
}

// CheckRequest says in what a request is not as the document wants it. The request needs its Body.
func (d *Document) CheckRequest(r *http.Request) error {
	route, params, err := d.router.FindRoute(r)
	if err != nil {
		return err
	}
	return openapi3filter.ValidateRequest(context.Background(), &openapi3filter.RequestValidationInput{
		Request: r, PathParams: params, Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: bearer},
	})
}

// bearer is satisfied with any credential in the documented place.
func bearer(_ context.Context, input *openapi3filter.AuthenticationInput) error {
	scheme := input.SecurityScheme
	credential, found := strings.CutPrefix(input.RequestValidationInput.Request.Header.Get("Authorization"), "Bearer ")
	if scheme.Type != "http" || scheme.Scheme != "bearer" || !found || credential == "" {
		return errors.New("no bearer credential")
	}
	return nil
}
