import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { sluice } from '../site-file/site-kit.js'

const POLICY = `on_http_request:
  - name: agents
    expressions: ["'user-agent' in req.headers && req.headers['user-agent'][0].matches('nikto|sqlmap')"]
    actions: [{ type: deny }]
  - name: ask
    expressions: ["req.url.path == '/asked'"]
    actions:
      - { type: http-request, config: { url: "https://auth.example.com/check" } }
  - name: known
    expressions:
      - "req.url.path == '/asked'"
      - "actions.ngrok.http_request.res.status_code != 200"
    actions: [{ type: deny, config: { status_code: 401 } }]
  - name: vault
    actions: [{ type: add-headers, config: { headers: { x-key: "\${secrets.get('keys', 'upstream')}" } } }]
  - name: limit
    actions:
      - type: rate-limit
        config: { name: all, algorithm: sliding_window, capacity: 2, rate: 60s, bucket_key: [conn.client_ip] }
`

const TESTS = `defaults: { host: shop.example.com, client_ip: 203.0.113.9 }
secrets: { keys: { upstream: s3cret-of-the-upstream } }
stubs:
  - { url: "https://auth.example.com/*", status: 200 }
cases:
  - name: two requests a minute
    steps:
      - { request: { path: /a }, repeat: 2, every: 10s, expect: { status: 200, outcome: forwarded } }
      - request: { path: /a }
        expect:
          { outcome: answered, status: 429, code: RATE_LIMITED, rule: limit, action: rate-limit, headers: { retry-after: "50" } }
      - { wait: 50s }
      - { request: { path: /a }, expect: { outcome: forwarded, published: { rate_limit: { remaining: 0 } } } }
  - name: \${agent} is kept out
    matrix: { agent: [nikto, sqlmap] }
    request: { headers: { user-agent: "\${agent}" } }
    expect: { status: 403, rule: agents, upstream: { uri: null } }
  - name: the upstream gets the key and its answer passes
    request: { method: POST, path: "/a?b=c", body: hello, headers: { accept: [a, b] } }
    upstream: { status: 201, headers: { x-from: upstream }, body: made }
    expect:
      status: 201
      body: { matches: "^ma" }
      headers: { x-from: upstream, x-other: null }
      upstream: { method: POST, uri: "/a?b=c", headers: { x-key: { contains: "" }, accept: [a, b] } }
  - { name: who is known, request: { path: /asked }, expect: { status: 200, rule: null } }
  - name: who is not
    stubs: [{ url: "https://auth.example.com/check", method: GET, status: 404 }]
    request: { path: /asked }
    expect: { status: 401, rule: known }
`

t.test('cases run in a time of their own, and say what went wrong', async (t) => {
  const folder = t.testdir({ 'shop.yaml': POLICY, 'shop.test.yaml': TESTS.replace('uri: null', "method: 'x'") })
  const failed = await sluice(folder, 'test')
  t.equal(failed.code, 1)
  t.match(failed.out, /failed shop\.test\.yaml: 4 of 6 cases/)
  t.match(failed.out, /nikto is kept out\n +step 1:\n +upstream\.method: expected "x", found null/)
  t.match(failed.out, /shop\.yaml:2:5 agents: matched/, 'with the explanation of the request')
})

t.test('what passes passes; coverage and mutants show what no case looks at', async (t) => {
  const tests = TESTS.replace(', upstream: { uri: null }', '')
  const folder = t.testdir({ 'shop.yaml': POLICY, 'shop.test.yaml': tests })
  const passed = await sluice(folder, 'test', '.', '--coverage', '--junit', 'report.xml')
  t.equal(passed.code, 0, passed.out + passed.err)
  t.match(
    passed.out,
    /ok shop\.test\.yaml: 6 of 6 cases\n +covered: 5 of 5 rules, 5 of 5 actions, \d+ of \d+ branches of conditions/
  )
  t.match(
    await readFile(join(folder, 'report.xml'), 'utf8'),
    /<testsuite name="shop\.test\.yaml" tests="6" failures="0"/
  )
  const mutated = await sluice(folder, 'test', '--mutate', '--only', 'a minute')
  t.equal(mutated.code, 1, 'a mistake that no case notices is a failure')
  t.match(mutated.out, /no case detects that rule "agents" is left out/)
  t.notMatch(mutated.out, /capacity is/, 'one more and one less are noticed')
  const tap = await sluice(folder, 'test', '--tap', 'shop.test.yaml')
  t.match(tap.out, /^TAP version 14\nok 1 - shop\.test\.yaml:6 two requests a minute\n/)
  t.match(tap.out, /\n1\.\.6\n?$/)
})

t.test('a thousand cases', async (t) => {
  const numbers = Array.from({ length: 1000 }, (_, n) => n).join(', ')
  const many = `policy: shop.yaml
secrets: { keys: { upstream: x } }
cases: [{ name: "\${n}", matrix: { n: [${numbers}] }, request: { path: "/\${n}" }, expect: { status: 200, upstream: { uri: "/\${n}" } } }]
`
  const folder = t.testdir({ 'shop.yaml': POLICY, 'many.test.yaml': many })
  const ended = await sluice(folder, 'test')
  t.equal(ended.code, 0, ended.out)
  t.match(ended.out, /1000 cases, 1000 passed, 0 failed/)
})

t.test('a file that is wrong has a place, and nothing runs', async (t) => {
  const folder = t.testdir({
    'shop.yaml': POLICY,
    'a.test.yaml': '',
    'b.yaml': 'on_http_request: [{ actions: [{ type: no }] }]'
  })
  const one = (text: string) => `policy: shop.yaml\ncases:\n  - name: x\n    ${text}\n`
  for (const [text, message] of [
    ['', /a file of tests is a map with `cases`/],
    ['cases: []', /cases/],
    [
      one('expect: { statuss: 200 }'),
      /a\.test\.yaml:4:\d+: error CONFIG_INVALID: unknown field "statuss".*did you mean "status"/
    ],
    [one('request: { url: "/x" }'), /"\/x" is no http or https URL/],
    [one('request: { client_ip: here }'), /"here" is no IP address/],
    [one('now: yesterday'), /"yesterday" is no time/],
    [one('expect: { body: { matches: "(" } }'), /no regular expression/],
    [
      one('{ steps: [{ wait: 1s }], expect: { status: 1 } }').replace('- name: x\n    {', '- { name: x,'),
      /either `steps`/
    ],
    ['policy: nowhere.yaml\ncases: [{ name: x }]', /nowhere\.yaml cannot be read: there is no such file \(ENOENT\)/],
    ['policy: b.yaml\ncases: [{ name: x }]', /b\.yaml:1:\d+: error ACTION_UNKNOWN/]
  ] as const) {
    await writeFile(join(folder, 'a.test.yaml'), text)
    const ended = await sluice(folder, 'test', 'a.test.yaml')
    t.equal(ended.code, 1, text)
    t.match(ended.out, message, text)
  }
  t.match(await sluice(folder, 'test', 'nothing'), {
    code: 2,
    err: /nothing cannot be read: there is no such file \(ENOENT\)/
  })
  t.match(await sluice(t.testdir({ empty: {} }), 'test', 'empty'), { code: 1, err: /no file \*\.test\.yaml/ })
})
