import t from 'tap'
import { estimate, examine, gatherFindings } from '../../../src/capabilities/waf/findings.js'
import { toCondition, toPlace, toTarget } from '../../../src/capabilities/waf/places.js'
import { exclusionsYaml, propose, withExclusions } from '../../../src/capabilities/waf/proposals.js'
import { parseCidr } from '../../../src/lib/ip.js'
import { Slices } from '../../../src/lib/slices.js'
import { readDocument } from '../../../src/policy/document.js'

const NO_COUNTS = { exchanges: 10, clients: 1, accepted: 0, rejected: 0, signedIn: 0, scanned: 0, trusted: 0 }

t.test('clients, answers of the upstream and sign-in make a false positive likely, scanners unlikely', async (t) => {
  const likelihood = (counts: Partial<typeof NO_COUNTS>) => estimate({ ...NO_COUNTS, ...counts }).likelihood
  t.equal(likelihood({}), 'unlikely')
  t.equal(likelihood({ accepted: 10 }), 'possible')
  t.equal(likelihood({ accepted: 10, clients: 2 }), 'likely')
  t.equal(likelihood({ accepted: 6, rejected: 4, clients: 2 }), 'possible')
  t.equal(likelihood({ clients: 3 }), 'possible')
  t.equal(likelihood({ clients: 3, signedIn: 5 }), 'likely')
  t.equal(likelihood({ clients: 3, signedIn: 5, rejected: 10 }), 'possible')
  t.equal(likelihood({ clients: 3, signedIn: 5, scanned: 5 }), 'unlikely')
  t.equal(likelihood({ trusted: 1 }), 'likely')
  t.same(estimate({ ...NO_COUNTS, clients: 4, accepted: 9, rejected: 1 }).reasons, [
    '4 different clients',
    'the upstream accepted 9 of 10'
  ])
})

t.test('paths with ids are one place, and its condition fits all of them', async (t) => {
  t.equal(toPlace('/posts/123/notes'), '/posts/*/notes')
  t.equal(toPlace('/u/0b6f1c1e-3c1c-4c1b-9d8f-0123456789ab'), '/u/*')
  t.equal(toPlace('/v2/comments'), '/v2/comments')
  t.equal(toCondition('/comments'), "req.url.path == '/comments'")
  t.equal(toCondition("/it's\\"), "req.url.path == '/it\\'s\\\\'")
  t.equal(toCondition('/a.b/*/c'), "req.url.path.matches('^/a\\\\.b/[^/]+/c$')")
})

t.test('a target names the variable; numbers of lists and cut names become patterns', async (t) => {
  t.equal(toTarget('ARGS:q'), 'ARGS:q')
  t.equal(toTarget('ARGS:v2'), 'ARGS:v2')
  t.equal(toTarget('ARGS:json.items.0.body'), 'ARGS:/^json\\.items\\.\\d+\\.body$/')
  t.equal(toTarget('ARGS:list[12]'), 'ARGS:/^list\\[\\d+\\]$/')
  t.equal(toTarget('ARGS:a b'), 'ARGS:/^a b$/')
  t.equal(toTarget(`ARGS:${'a'.repeat(123)}…`), `ARGS:/^${'a'.repeat(100)}/`)
  t.equal(toTarget('REQUEST_URI'), 'REQUEST_URI')
  t.equal(toTarget('XML:/*'), 'XML:/*')
  for (const none of ['', '&REQUEST_HEADERS:Host', 'TX:1', 'MATCHED_VAR']) t.equal(toTarget(none), undefined)
})

interface Sent {
  readonly client?: string
  readonly path?: string
  readonly status?: number
  readonly rules: readonly (readonly [id: number, variable: string, score?: number])[]
}

/** What the firewall found in a request that it denied, or with a `status` did not. */
function found({ client = '192.0.2.1', path = '/comments', status, rules }: Sent) {
  const decision = status === undefined ? 'deny' : 'allow'
  const matches = rules.map(([id, variable, score = 5]) => {
    const texts = { message: `rule ${id}`, severity: 'CRITICAL', value: '<script>' }
    return { id, variable, score, ...texts, transformations: [] }
  })
  const sums = { score: 5, threshold: 5, digest: 'd', omitted: 0 }
  const waf = [{ action: 'owasp-crs-request', owner: 'r1', path, decision, ...sums, rules: matches }]
  const request = { clientAddress: client } as Parameters<typeof examine>[0]['request']
  const facts = { id: null, at: 0, isBodyMissing: false, isRedacted: false, decided: undefined, isSignedIn: false }
  const judgement = { decision: '403 owasp-crs-request', reason: null, rule: null, isRefused: true }
  return examine(
    { ...facts, request, answer: undefined, upstreamStatus: status, waf: [] },
    {
      judgement,
      explanation: { waf } as unknown as Parameters<typeof examine>[1]['explanation']
    }
  )
}

t.test('matches are gathered by rule, path and variable, and proposed for the action', async (t) => {
  const clients = ['192.0.2.1', '192.0.2.2', '192.0.2.3']
  const examined = clients.flatMap((client) => [
    found({
      client,
      status: 200,
      rules: [
        [941100, 'ARGS:text'],
        [942100, 'ARGS:text']
      ]
    }),
    found({ client, path: `/posts/${client.at(-1)}`, status: 200, rules: [[942100, 'ARGS:text']] }),
    found({ client, path: `/a/${client}`, status: 200, rules: [[920350, 'REQUEST_HEADERS:Host', 3]] })
  ])
  const { all } = await gatherFindings(examined, [], new Slices())
  t.match(
    all.filter(({ variable }) => variable === 'ARGS:text'),
    [
      { path: '/comments', rule: 941100, exchanges: 3, clients: 3, accepted: 3, denied: 0, likelihood: 'likely' },
      { path: '/comments', rule: 942100 },
      { path: '/posts/*', rule: 942100, exchanges: 3 }
    ]
  )
  const unscored = { ...(all[0] as (typeof all)[number]), rule: 949110 }
  const [proposal, other] = propose([...all.filter(({ likelihood }) => likelihood === 'likely'), unscored])
  t.equal(other, undefined)
  t.equal(
    exclusionsYaml(proposal?.exclusions ?? []),
    `exclusions:
  - when: "req.url.path == '/comments'"
    rules: [941100, 942100]
    targets: ["ARGS:text"]
  - when: "req.url.path.matches('^/posts/[^/]+$')"
    rules: [942100]
    targets: ["ARGS:text"]`
  )
  const headers = propose(all.map((one) => ({ ...one, variable: 'REQUEST_HEADERS:Host', rule: 920350 })))
  t.same(
    headers[0]?.exclusions,
    [{ rules: [920350], targets: ['REQUEST_HEADERS:Host'] }],
    'headers are those of all paths'
  )
})

t.test('a client that matches many rules on many paths looks like a scanner, unless it is trusted', async (t) => {
  const rules = [1, 2, 3, 4, 5].map((one) => [941_000 + one, 'ARGS:q'] as const)
  const examined = ['/a', '/b', '/c'].map((path) => found({ path, status: 200, rules }))
  const seen = await gatherFindings(examined, [], new Slices())
  t.same([...seen.scanners], ['192.0.2.1'])
  t.equal(seen.all[0]?.likelihood, 'unlikely')
  const network = parseCidr('192.0.2.0/24')
  const trusted = await gatherFindings(examined, network === undefined ? [] : [network], new Slices())
  t.same([...trusted.scanners], [])
  t.equal(trusted.all[0]?.likelihood, 'likely')
})

t.test('the exclusions are added to those of each action of the type', async (t) => {
  const policy = `on_http_request:
  - actions:
      - { type: owasp-crs-request, config: { exclusions: [{ rules: [1] }] } }
      - { type: owasp-crs-response }
`
  const text = withExclusions(policy, { action: 'owasp-crs-request', exclusions: [{ rules: [941100] }] })
  t.match(readDocument(text).problems, [])
  t.same(JSON.parse(text).on_http_request[0].actions, [
    { type: 'owasp-crs-request', config: { exclusions: [{ rules: [1] }, { rules: [941100] }] } },
    { type: 'owasp-crs-response', config: {} }
  ])
})
