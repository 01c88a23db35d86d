// Package telemetry is what a gateway tells its operators about itself while it
// serves: metrics for Prometheus, and traces if OpenTelemetry's variables ask
// for them.
//
// Each type here measures one thing and is a prometheus.Collector: requests,
// decisions of the store, refusals by quota, and what other parts count by
// themselves (the policy file, the connections to Redis, the batches). Their
// names, labels and meanings are in docs/metrics.md.
//
// Tracing makes the spans: of a request, of the store's decision on it and of
// the call of the upstream. Without the variables there is no Tracing at all.
//
// No label comes from a client. Its values are words of the program, status
// codes, versions, and the projects that are refused most. Secrets, lock keys,
// lock tokens and request ids are never among them.
package telemetry
