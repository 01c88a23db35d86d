// Package configs holds what an operator decides: the process settings, read once from the
// environment, and the policy file, which says what each project may do.
//
// [Load] turns an environment into [Settings]. It checks everything, reports every complaint
// together and touches nothing: it reads the files that the settings name and neither opens a
// listener, nor creates a file, nor reaches a store. A setting that Load accepted can still fail
// when it is used (a port that is taken, a store that is down); that is for the constructors.
//
// [Policy] answers two questions about a project: how many lock requests a minute it has, and
// whether it, or one of its keys, is shut out. A policy never changes once it has been read, so
// any number of goroutines may use it; a new file is a new Policy.
//
// [PolicyFile] holds the Policy in force while a process runs, and follows the file: it promises
// that every change is seen, by events and by polling, that a bad or missing file leaves the last
// good policy in force and is told once, and that asking for the policy costs one atomic load. It
// cannot know that a writer who pauses in the middle of the file is not finished; its comment says
// how far it goes. Settings.Policy is the policy at the time of Load, for commands that end at once.
//
// Secrets are held as [Secret], which no way of printing shows. An error names the variable, what
// is wrong and the remedy, and never quotes a value that may hold a secret: neither the secrets
// themselves, nor the contents of a key file, nor the URL of a store with its password.
//
// The table of settings in the README is made from the tags of [Settings]; after a change there
// run go test ./configs -run README -update.
package configs
