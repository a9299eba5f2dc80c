import t from 'tap'
import { readFirewall } from '../../../src/capabilities/explain/running-lab.js'
import { policyTesting } from '../../../src/capabilities/policy-tests/stored-tests.js'
import { writeRules } from '../../features/waf/crs-like.js'

const POLICY = `on_http_request:
  - actions: [{ type: owasp-crs-request }]
`

/** A case that expects this of a request with the query. */
const expecting = (waf: string, query = 'q=%3Cscript') =>
  `cases:\n  - name: script\n    request: { path: "/?${query}", headers: { user-agent: scanner } }\n    expect: { waf: ${waf} }\n`

t.test('tests that are stored with a policy expect score and rules of the firewall', async (t) => {
  const run = policyTesting({ firewall: await readFirewall(writeRules(t.testdir())) })
  const problems = (tests: string) => run({ policy: POLICY, tests })
  t.same(await problems(expecting('{ score: 7, rules: [941100, 913100] }')), [])
  t.same(await problems(expecting('{ score: 2, rules: [913100] }', 'q=1')), [])
  t.same(
    await problems(
      'cases:\n  - { name: harmless, request: { path: "/?q=1" }, expect: { waf: { score: 0, rules: [] } } }\n'
    ),
    []
  )
  t.match(await problems(expecting('{ score: 5 }')), [
    { line: 2, column: 5, failed: { case: 'script', what: 'waf.score', expected: '5', found: '7' } }
  ])
  t.match(await problems(expecting('{ rules: [941100] }')), [
    { line: 2, failed: { what: 'waf.rules', expected: '[941100]', found: '[913100,941100]' } }
  ])
  t.match(await problems(expecting('{ rules: [7] }')), [{ line: 4, column: 30, message: /900000/ }])
  t.match(await problems(expecting('{ score: high }')), [{ line: 4 }])
})

t.test('where no rules are known, cases that expect results of the firewall are not run', async (t) => {
  const run = policyTesting()
  const deny = 'on_http_request:\n  - actions: [{ type: deny }]\n'
  t.same(await run({ policy: deny, tests: expecting('{ score: 5 }') }), [])
  const both = `${expecting('{ score: 5 }')}  - { name: denied, request: {}, expect: { status: 200 } }\n`
  t.match(await run({ policy: deny, tests: both }), [{ failed: { case: 'denied' } }])
})
