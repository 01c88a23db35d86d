package e2e

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
)

// The faults that services like this one are known for, and what holds that
// this one does not have them. Where a test says so, its name is enough; a name
// that begins with a small letter is a part of a suite: of storetest.Run, which
// TestConformance, TestConformanceWithSentinels and TestCluster run, or of
// another table.
const faults = `
Lease and time
  A lease that ended on its way is handed out
    TestALeaseThatEndedOnTheWayIsNotHandedOut, TestFailuresOfTheStoreAreTold
  Renewing brings back what expired or was removed
    testPhases, TestLuaAnswersTheLeaseCasesAsGoDoes, testStateTable, TestALockThatNobodyWantsBecomesFreeByItself
  A late release takes the lease of the next owner
    testPhases, testStateTable, TestALeaseGoesThroughItsPhases
  There is no second of grace, since the record ends with the lease
    TestALeaseGoesThroughItsPhases, TestRecordsExpireByThemselves
  The lock of a dead owner takes more than one call to get
    TestALeaseGoesThroughItsPhases, testPhases
  Units, roundings and overflows of the TTL
    testBodies, testExpiry, testDeadline, TestDecodeTTL, FuzzDecodeTTL, TestLuaAnswersTheLeaseCasesAsGoDoes
  A crash between two writes leaves a lock for ever
    cannot occur: one script, or one transaction, writes a lease with its end
    TestAWarmRequestIsOneEvalsha, TestRecordsExpireByThemselves, TestWhatWasAcknowledgedSurvivesKill

Fencing
  Large numbers lose digits in Lua or in JavaScript
    testFencingDigits, testShapes, FuzzReply, TestFencingTokensFitJavaScriptUntil2255
  The counter begins anew: flush, clean-up, restart, fail-over
    TestTokensRiseThoughTheDataIsLost, TestRedisComesBackWithoutItsData, TestAFailOverEndsByItself, testClusterFailOver,
    TestLeasesAndTokensSurviveARestart, TestSweepingRemovesWhatIsForgottenAndNothingElse, testFencing, testFences
  A record for every name that was ever locked
    TestRecordsExpireByThemselves, TestSweepingRemovesWhatIsForgottenAndNothingElse

Store client
  A script that the server forgot fails every call until a restart
    TestLostConnectionsAndScriptsAreNotNoticed, testClusterScriptLost, TestAForgottenScriptIsNoTrouble
  The client repeats a call whose reply was lost
    TestEveryFaultIsAnErrorInTimeAndEndsByItself, TestClusterBehindProxies, TestARequestWhoseReplyIsLostCountsOnce,
    TestAnOutageUnderLoad
  The deadline does not count while the server is frozen
    TestEveryFaultIsAnErrorInTimeAndEndsByItself, TestAThousandCallsInAnOutageLeaveNothingBehind, TestRedisFreezes,
    testClusterFrozenNode, TestAnOutageUnderLoad
  Connections never come back; a demoted primary is used for ever
    TestEveryFaultIsAnErrorInTimeAndEndsByItself, TestAFailOverEndsByItself, testClusterFailOver, TestRedisCannotDecide,
    TestRedisIsKilledAndComesBackWithItsData, TestAGatewayStartsBeforeItsRedis, TestAnOutageUnderLoad
  The keys of one call are in different slots
    TestCluster: a cluster would refuse every call
  The server may drop locks when its memory is full
    TestAServerThatMayEvictIsRefused, testClusterEviction, TestARedisThatMayDropLocksIsRefused

Quota
  A counter without an end locks a project out
    TestTake and TestLuaAnswersTheQuotaCasesAsGoDoes: a counter that outlived its minute; TestRecordsExpireByThemselves
  Refused calls count; parallel ones slip through; two gateways have two minutes
    testLimit, testParallelLimit, TestAMinuteAdmitsExactlyTheQuota, TestAnExhaustedProjectIsRefusedFromMemoryUntilItsWindowEnds
  Retry-After is nothing, negative, broken, or leads to another refusal
    TestRetryAfterLeadsIntoTheNextWindow, TestAMinuteAdmitsExactlyTheQuota
  Without the store requests pass uncounted
    TestFailuresOfTheStoreAreTold, TestRedisIsKilledAndComesBackWithItsData, TestRedisFreezes, TestAnOutageUnderLoad
  Projects, or a project and a key, share a counter
    testNamesApart, testProjects

Credentials
  No algorithm, another one, an empty secret, an expiry that is none
    TestAnAlgorithmOutsideTheFourIsRefused, TestAPublicKeyIsNoSecret, TestATokenThatNoConfiguredKeySignedIsRefused,
    TestATimeOutOfRangeIsRefused, TestClaimsAreReadStrictly, TestTimesGetNoLeeway, TestAMissingOrShortSecretDoesNotStart,
    TestWrongStarts, TestCredentials
  Members in another case, or given twice
    TestClaimsAreReadStrictly, TestAHeaderIsReadStrictly, FuzzSignedClaims, TestCredentials
  A revoked key lives on in a cache
    TestEveryChangeOfThePolicyFileIsSeen, TestTheCacheNeverOutlivesTheCredential
  A key id that nobody knows costs a search
    TestAKeyIDIsLookedUpTogetherWithTheAlgorithm, TestCertificatesAndAddressesInAKeyAreIgnored,
    TestAStormOfUnknownKeyIDsFetchesOncePerCoolDown, TestWhatNoURLCanHaveFetchesNothing
  Two Authorization headers
    TestNoBytesBreakTheGateway: doubledHeaders; TestAuthorizationHeaders

HTTP
  Texts of one request change with the next one
    TestAuditLinesTellOfTheirOwnRequest, TestEveryRequestLeavesOneAuditLine
  Another spelling of a path reaches another route
    TestNoBytesBreakTheGateway: targets; testRoutes, testKeys, TestDecodeKey, FuzzDecodeKey,
    TestWhatServersReadInDifferentWaysIsAmbiguous, TestNoSpellingOfLocksReachesTheUpstream, FuzzSpellingsOfLocks
  Trailers, doubled or folded headers say who somebody is
    TestNoBytesBreakTheGateway: trailers, doubledHeaders, badHeaders; TestRequestsThatNoClientLibrarySends
  Two lengths smuggle a second request
    TestNoBytesBreakTheGateway: badFraming, badChunks, strayBodies, pipelines; TestRequestsThatNoClientLibrarySends,
    TestWhatServersReadInDifferentWaysIsAmbiguous, TestNoMutationOfARequestBreaksTheGateway
  An error quotes the request
    TestNoBytesBreakTheGateway: planted, and every other attack; TestNoMutationOfARequestBreaksTheGateway
  A slow client keeps a connection for ever
    TestSlowSendersAreCutAndHurtNobody, TestClientsThatDoNotReadAreCutAndHurtNobody, TestARequestThatIsSlowButInTimeIsServed
  Stopping cuts what is in flight, or waits for idle connections
    TestStoppingFinishesWhatIsInFlight, TestStoppingEndsInTimeWhateverIsInFlight, TestIdleConnectionsDoNotHoldUpTheStop,
    TestSilentConnectionsDoNotHoldUpTheStop, TestWhatWasDoneWasAnswered
  Identity headers of the client reach the upstream, or ours do not
    TestIdentityComesFromTheCredentialOnly, TestTrailersOfTheClientGoNowhere, TestHopByHopHeadersStayOnTheirHop
  A request whose connection broke is sent again
    TestARequestArrivesOnceWhenItsConnectionBreaks, TestARequestArrivesOnceWhenAFreshConnectionBreaks,
    TestUnsentRequestsAreSentAgainAndOthersAreNot
  Streams arrive at their end only, or stay in memory
    TestEventsArriveAtOnce, TestBodiesAreStreamedBothWaysInLittleMemory, TestAnswersAndUploadsMayOverlap
  Not on the list: more connections than files, and clients that break off
    TestMoreConnectionsThanFilesHurtNobodyWhoIsThere, TestAListenerOutlivesWhatTheSystemLacks,
    TestClientsThatBreakOffAreNoFailures
  Not on the list: what is left of one answer becomes the answer to somebody else
    TestWhatIsLeftOfAnAnswerIsNobodysAnswer, TestNoRequestGoesOutBeforeEverythingBeforeItWasRead, TestNoAnswerIsTold
  Not on the list: large requests leave their memory with idle connections
    TestTheMemoryOfALargeRequestIsGivenBack, TestWhatServersReadInDifferentWaysIsAmbiguous

Configuration and logs
  A file that is replaced is not seen, or seen once
    TestEveryChangeOfThePolicyFileIsSeen, TestEveryChangeIsSeenAgainAndAgain, TestOnlyTheWayToTheFileIsWatched,
    TestTheFileIsPolledWhenTheSystemGivesNoEvents
  A bad file ends the watch, empties the policy, or the process
    TestABadPolicyFileLeavesTheLastGoodOneInForce, TestABadFileLeavesTheLastGoodOneInForce, TestStatusTellsWhereTheFileStands,
    TestParsePolicyRefuses, FuzzParsePolicy,
    TestOpenPolicyFileRefuses, TestLoadChecksTheCertificate
  A line break makes an event; a secret is in a log or a metric
    every test here, when its gateway ends (gateway.judge), which TestTheJudgeFindsSecrets tests;
    TestNoBytesBreakTheGateway, TestEveryRequestLeavesOneAuditLine, TestAnUnusableRequestIDIsAuditedUnderTheNewOne,
    TestSettingsNeverShowSecrets, TestErrorsNeverShowSecrets, TestAnErrorNeverQuotesAnAnswer,
    TestWhatAnUpstreamSendsUnaskedIsNotLogged
`

// TestTheListOfFaultsNamesTestsThatExist keeps the list from growing old.
func TestTheListOfFaultsNamesTestsThatExist(t *testing.T) {
	t.Parallel()
	exists := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (\w+)\(`)
	repository := os.DirFS("..")
	err := fs.WalkDir(repository, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		source, err := fs.ReadFile(repository, path)
		for _, name := range declared.FindAllStringSubmatch(string(source), -1) {
			exists[name[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`\b(Test|Fuzz|test)[A-Z]\w+|: ([a-z]+[A-Z]\w+)|, ([a-z]+[A-Z]\w+)`).FindAllString(faults, -1)
	for _, name := range names {
		if name = strings.Trim(name, ":, "); !exists[name] {
			t.Errorf("there is no %s", name)
		}
	}
	t.Logf("%d names", len(names))
}
