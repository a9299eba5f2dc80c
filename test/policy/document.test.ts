import t from 'tap'
import { MAX_DOCUMENT, readDocument } from '../../src/policy/document.js'
import { dataOf } from '../../src/policy/tree.js'
import { short } from './stand.js'

const rule = 'on_http_request:\n  - actions:\n      - type: deny\n'

t.test('what is wrong with a document is reported where it stands', async (t) => {
  const cases: [name: string, text: string, expected: string[]][] = [
    ['a text', 'deny everything', ['1:1 DOCUMENT_INVALID']],
    ['a list', '- a\n- b', ['1:1 DOCUMENT_INVALID']],
    ['unclosed bracket', 'on_http_request: [', ['1:19 DOCUMENT_SYNTAX']],
    ['tabs', 'on_http_request:\n\t- actions: []\n', ['2:1 DOCUMENT_SYNTAX']],
    ['a stream of directives', '%a\n', ['1:1 DOCUMENT_SYNTAX']],
    ['two documents', `${rule}---\n${rule}`, ['5:1 DOCUMENT_MANY']],
    ['a key twice', `${rule}on_http_request: []\n`, ['4:1 DOCUMENT_DUPLICATE_KEY']],
    ['a list as a key', '? [a]\n: b', ['1:3 DOCUMENT_SYNTAX']],
    ['an alias without an anchor', 'on_http_request: *x', ['1:18 DOCUMENT_SYNTAX']],
    ['an alias inside its anchor', 'on_http_request: &x\n  - *x', ['2:5 DOCUMENT_SYNTAX']],
    ['an unknown phase', 'on_http_requests: []', ['1:1 PHASE_UNKNOWN on_http_requests']],
    ['a wrapper', `traffic_policy:\n  on_http_request: []`, ['2:3 PHASE_UNKNOWN traffic_policy']],
    ['switched off', `enabled: false\n${rule}`, ['1:1 DOCUMENT_INVALID enabled']],
    ['strictness that is no truth value', 'strict_expressions: maybe', ['1:21 DOCUMENT_INVALID strict_expressions']],
    ['strictness misspelt', 'strict_expression: true', ['1:1 PHASE_UNKNOWN strict_expression']],
    ['a map of rules', 'on_http_request:\n  actions: []', ['2:3 RULES_INVALID on_http_request']],
    ['a text as rules', 'on_http_request: deny', ['1:18 RULES_INVALID on_http_request']],
    ['a text as rule', 'on_http_request: [deny]', ['1:19 RULE_INVALID on_http_request[0]']],
    ['an unknown key of a rule', `${rule}    expresions: []\n`, ['4:5 RULE_KEY_UNKNOWN on_http_request[0].expresions']],
    ['no actions', 'on_http_request:\n  - name: x', ['2:5 ACTIONS_MISSING on_http_request[0]']],
    ['empty actions', 'on_http_request:\n  - actions: []', ['2:5 ACTIONS_MISSING on_http_request[0].actions']],
    ['null actions', 'on_http_request:\n  - actions:', ['2:5 ACTIONS_MISSING on_http_request[0].actions']],
    [
      'a map of actions',
      'on_http_request:\n  - actions:\n      type: x',
      ['3:7 RULE_INVALID on_http_request[0].actions']
    ],
    ['a name that is a list', `${rule}    name: [a]\n`, ['4:11 RULE_INVALID on_http_request[0].name']],
    ['a text as expressions', `${rule}    expressions: a\n`, ['4:18 RULE_INVALID on_http_request[0].expressions']],
    ['an empty expression', `${rule}    expressions: ['']\n`, ['4:19 RULE_INVALID on_http_request[0].expressions[0]']],
    [
      'a truth value as expression',
      `${rule}    expressions: [true]\n`,
      ['4:19 RULE_INVALID on_http_request[0].expressions[0]']
    ],
    [
      'a map as expression',
      `${rule}    expressions: [{a: b}]\n`,
      ['4:19 RULE_INVALID on_http_request[0].expressions[0]']
    ],
    ['a tag for an expression', `${rule}    expressions:\n      - !has(x)\n`, ['5:9 DOCUMENT_TAG']],
    ['a tag before an expression', `${rule}    expressions:\n      - !(a in b)\n`, ['5:9 DOCUMENT_TAG']],
    ['a tag before a call', `${rule}    expressions:\n      - !hasReqHeader("x")\n`, ['5:9 DOCUMENT_TAG']],
    [
      'tags before quotes',
      `${rule}    expressions:\n      - !(has(req.headers["x"]))\n      - !'x' in req.headers\n`,
      ['5:9 DOCUMENT_TAG']
    ],
    [
      'a text as action',
      'on_http_request:\n  - actions: [deny]',
      ['2:15 ACTION_INVALID on_http_request[0].actions[0]']
    ],
    ['no type', 'on_http_request:\n  - actions: [{}]', ['2:15 ACTION_INVALID on_http_request[0].actions[0]']],
    [
      'a number as type',
      'on_http_request:\n  - actions: [{type: 1}]',
      ['2:22 ACTION_INVALID on_http_request[0].actions[0].type']
    ],
    [
      'an unknown key of an action',
      'on_http_request:\n  - actions: [{type: a, nam: b}]',
      ['2:25 ACTION_KEY_UNKNOWN on_http_request[0].actions[0].nam']
    ],
    [
      'a list as config',
      'on_http_request:\n  - actions: [{type: a, config: []}]',
      ['2:33 ACTION_INVALID on_http_request[0].actions[0].config']
    ],
    ['broken JSON', '{"on_http_request": [}', ['1:22 DOCUMENT_SYNTAX']]
  ]
  for (const [name, text, expected] of cases) t.same(short(readDocument(text).problems), expected, name)
})

t.test('a message says how to write it', async (t) => {
  const message = (text: string) => readDocument(text).problems[0]?.message
  t.match(message('on_http_requests: []'), /did you mean "on_http_request"\?/)
  t.match(message(`${rule}    expresions: []\n`), /did you mean "expressions"\?/)
  t.match(message('site: {}\n'), /"site" is no phase; .*; did you mean "sites", as in a site file\?$/)
  t.match(message('listener: []\n'), /did you mean "listeners", as in a site file\?$/)
  t.match(message(`${rule}    expressions: [!a]\n`), /"!a" as a tag.*quotes/)
  t.match(message(`${rule}    expressions:\n      - 'a' in b\n`), /goes on after its closing quote/)
  t.match(message(`${rule}    expressions:\n      - [1].exists(x, x)\n`), /goes on after its closing quote or bracket/)
  t.match(message('on_http_request: }'), /does not belong here/)
  t.match(message('on_http_request:\n  a: b'), /a list of rules, not a map; begin each item with "- "/)
  t.match(message('on_http_request:\n  - name: 1'), /at least one action$/)
  for (const key of ['site', 'servers', 'hosts', 'http'])
    t.match(message(`${key}: {}`), /did you mean "sites", as in a site file/)
  t.match(message('upstreams: {}'), /did you mean "backends", as in a site file/)
  t.match(message('traffic_policy: {}'), /put the phases at the root/)
  t.match(message(`${rule}    expressions: [{a: b}]\n`), /in quotes/)
})

t.test('a document that says nothing is refused: it would open what another one protected', async (t) => {
  const nothing = ['', ' \n\n', '# only a comment', '---\n', '---\n---\n', 'null', '~', '{}', '\ufeff']
  const phases = ['on_http_request:', 'on_http_request: null\non_http_response: ~', 'inbound:', 'enabled: true']
  for (const text of [...nothing, ...phases, 'on_http_request:\n#  - actions:\n#      - type: deny\n']) {
    const errors = readDocument(text).problems.filter(({ severity }) => severity === 'error')
    t.match(
      errors,
      [{ code: 'DOCUMENT_EMPTY', path: '', line: 1, message: /on_http_request: \[\]/ }],
      JSON.stringify(text)
    )
    t.equal(errors.length, 1, JSON.stringify(text))
  }
})

t.test('what a document may look like', async (t) => {
  const names = (text: string) => {
    const { document, problems } = readDocument(text)
    t.same(
      problems.filter(({ severity }) => severity === 'error'),
      [],
      text
    )
    return document.phases.on_http_request.map(({ name }) => name)
  }
  for (const text of ['on_http_request: []', 'on_http_request:\non_http_response: []', '{"on_tcp_connect":[]}']) {
    t.same(names(text), [], JSON.stringify(text))
  }
  t.same(names(JSON.stringify({ on_http_request: [{ name: 'a', actions: [{ type: 'deny' }] }] })), ['a'], 'JSON')
  t.same(names(`${rule}---\n# nothing more\n`), ['#0'], 'an empty second document')
  t.same(names(`%YAML 1.2\n---\n${rule}...\n`), ['#0'], 'directives')
  t.same(names(rule.replaceAll('\n', '\r\n')), ['#0'], 'line ends of Windows')
  t.same(names(`\ufeff${rule}`), ['#0'], 'a byte order mark')
  t.same(
    names(
      'on_http_request:\n- {name: 404, actions: &a [{type: deny}]}\n- {name: 1.50, actions: *a}\n- {name: true, actions: *a}'
    ),
    ['404', '1.50', 'true'],
    'names as written'
  )
  t.same(
    names('on_http_request:\n- {name: , expressions: , actions: [{type: deny, config: }]}'),
    ['#0'],
    'null is nothing'
  )
  t.same(
    names('on_http_request:\n- &r {name: a, actions: [{type: deny}]}\n- {<<: *r, name: b}'),
    ['a', 'b'],
    'merge keys'
  )
})

t.test('old phase names stand after the present ones and are told of', async (t) => {
  const text =
    'inbound:\n- {name: old, actions: [{type: a}]}\non_http_request:\n- {name: new, actions: [{type: b}]}\noutbound:\n- {actions: [{type: c}]}\nenabled: true\n'
  const { document, problems } = readDocument(text)
  t.same(
    document.phases.on_http_request.map(({ name }) => name),
    ['new', 'old']
  )
  t.same(
    document.phases.on_http_response.map(({ name }) => name),
    ['#0']
  )
  t.same(document.phases.on_http_request[1]?.path, ['inbound', 0], 'paths are those of the text')
  t.same(short(problems), ['(1:1 LEGACY_PHASE inbound)', '(5:1 LEGACY_PHASE outbound)', '(7:1 LEGACY_ENABLED enabled)'])
  t.match(readDocument('inbound: []').problems[0]?.message, /"inbound" is the old name of "on_http_request"/)
})

t.test('large and deep documents are refused, quickly and without harm', async (t) => {
  const bomb = [
    'a: &a [x,x,x,x,x,x,x,x,x]',
    ...[...'bcdefgh'].map((c, i) => `${c}: &${c} [${Array(9).fill(`*${'abcdefg'[i]}`)}]`)
  ].join('\n')
  const cases: [string, string, string][] = [
    ['too long', `#${' '.repeat(MAX_DOCUMENT)}`, 'DOCUMENT_LIMIT'],
    [
      'aliases',
      `on_http_request: [{actions: [{type: a, config: {${bomb.replaceAll('\n', ', ')}}}]}]`,
      'DOCUMENT_LIMIT'
    ],
    ['repeated values', `a: &a [${'x,'.repeat(999)}x]\nb: [${'*a,'.repeat(20)}*a]\n`, 'DOCUMENT_LIMIT'],
    [
      'merge keys',
      `a: &a {${Array.from({ length: 18 }, (_, i) => `k${i}: 1`)}}\nb:\n${'  <<: *a\n'.repeat(2_000)}`,
      'DOCUMENT_LIMIT'
    ],
    ['brackets', '['.repeat(100_000), 'DOCUMENT_LIMIT'],
    ['braces', '{a: '.repeat(100_000), 'DOCUMENT_LIMIT'],
    ['dashes', `${'- '.repeat(100_000)}x`, 'DOCUMENT_LIMIT'],
    ['depth', `on_http_request: ${'['.repeat(80)}${']'.repeat(80)}`, 'DOCUMENT_LIMIT'],
    ['many errors', 'a: @b\n'.repeat(1000), 'DOCUMENT_SYNTAX']
  ]
  for (const [name, text, code] of cases) {
    const { problems } = readDocument(text)
    t.match(problems[0], { code, severity: 'error' }, name)
    t.ok(problems.length <= 5, `${name}: few problems`)
  }
})

t.test('keys that JavaScript treats specially are only keys', async (t) => {
  const { document } = readDocument(
    'on_http_request: [{actions: [{type: a, config: {__proto__: {x: 1}, constructor: 2}}]}]'
  )
  const config = document.phases.on_http_request[0]?.actions[0]?.config
  const data = dataOf(config as NonNullable<typeof config>) as object
  t.same(Object.keys(data), ['__proto__', 'constructor'])
  t.equal(Object.getPrototypeOf(data), Object.prototype)
})

t.test('a key in another spelling is one problem, not two', (t) => {
  const codes = (text: string) => readDocument(text).problems.map(({ code, path }) => `${code} ${path}`)
  t.same(codes('on_http_request:\n  - action: [{ type: deny }]'), ['RULE_KEY_UNKNOWN on_http_request[0].action'])
  t.same(codes('on_http_request:\n  - actions: [{ typ: deny }]'), [
    'ACTION_KEY_UNKNOWN on_http_request[0].actions[0].typ'
  ])
  const named = readDocument('on_http_request:\n  - actions: [{ deny: {} }]').problems
  t.match(named, [{ code: 'ACTION_KEY_UNKNOWN', message: /has its name as type; write "type: deny"/ }])
  t.equal(named.length, 1)
  t.end()
})

t.test('a document of another program that holds policies says which part to take', (t) => {
  const inner = (indent: number) => rule.trimEnd().replace(/^/gm, ' '.repeat(indent))
  const kubernetes = (kind: string) =>
    `apiVersion: ngrok.k8s.ngrok.com/v1alpha1\nkind: ${kind}\nmetadata: { name: p }\n`
  const cases: [text: string, path: string, what: RegExp][] = [
    [
      `${kubernetes('NgrokTrafficPolicy')}spec:\n  policy:\n${inner(4)}`,
      'spec.policy',
      /Kubernetes manifest \(NgrokTr/
    ],
    [
      `${kubernetes('AgentEndpoint')}spec:\n  trafficPolicy:\n    inline:\n${inner(6)}`,
      'spec.trafficPolicy.inline',
      /Agent/
    ],
    [`apiVersion: v1\nkind: ConfigMap\ndata:\n  policy: |\n${inner(4)}`, 'data.policy', /ConfigMap/],
    [`version: 3\nendpoints:\n  - url: a\n    traffic_policy:\n${inner(6)}`, 'endpoints[0].traffic_policy', /an agent/],
    ['tunnels:\n  web:\n    traffic_policy:\n      inbound: []', 'tunnels.web.traffic_policy', /an agent/],
    [JSON.stringify({ enabled: true, value: rule }), 'value', /with a policy inside/]
  ]
  for (const [text, path, what] of cases) {
    const { problems } = readDocument(text)
    t.match(problems, [{ code: 'PHASE_UNKNOWN', severity: 'error', path, message: what }], path)
    t.equal(problems.length, 1, `${path}: one problem`)
    t.match(problems[0]?.message, `take its part ${path} as`)
  }
  const two = `endpoints:\n  - traffic_policy:\n${inner(6)}\n  - traffic_policy:\n${inner(6)}`
  t.match(
    readDocument(two).problems[0]?.message,
    /take its parts endpoints\[0\]\.traffic_policy, endpoints\[1\]\.traffic_policy/
  )
  t.match(readDocument('apiVersion: v1\nkind: Service\n').problems.length, 2, 'no policy inside')
  t.end()
})
