import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { sluice } from '../site-file/site-kit.js'

const POLICY = `on_http_request:
  - name: own clients
    expressions: ["conn.client_ip == '203.0.113.9'"]
    actions:
      - type: rate-limit
        config: { name: all, algorithm: sliding_window, capacity: 2, rate: 60s, bucket_key: [conn.client_ip] }
`

t.test('a policy is tried without a server: each decision with the values that led to it', async (t) => {
  const folder = t.testdir({ 'policy.yaml': POLICY })
  const words = ['try', 'policy.yaml', '--client-ip', '203.0.113.9', '--at', '2026-01-31T12:00:00Z']
  const one = await sluice(folder, ...words, 'http://shop.example.com/cart')
  t.equal(one.code, 0, one.err)
  t.match(one.out, /policy\.yaml:2:5 own clients: matched/)
  t.match(one.out, /conn\.client_ip == '203\.0\.113\.9' = true\n +\^{14} "203\.0\.113\.9"/)
  t.match(one.out, /forwarded: 200\n?$/)
  const many = await sluice(folder, ...words, '--repeat', '4', '--every', '10s', '--json', 'http://shop.example.com/')
  const lines = many.out.trim().split('\n')
  const statuses = lines.map((line) => (JSON.parse(line) as { decision: { status: number } }).decision.status)
  t.same(statuses, [200, 200, 429, 429])
  const later = await sluice(folder, ...words, '--repeat', '4', '--every', '31s', '--json', 'http://shop.example.com/')
  t.notMatch(later.out, /"status":429/)
})

t.test('what cannot be tried is said, and nothing is taken for something else', async (t) => {
  const folder = t.testdir({ 'policy.yaml': POLICY })
  await writeFile(join(folder, 'bad.yaml'), 'on_http_request: [{ actions: [{ type: denyy }] }]\n')
  const bad = await sluice(folder, 'try', 'bad.yaml', 'http://x.test/')
  t.match(bad, { code: 1, err: /bad\.yaml:1:\d+: error ACTION_UNKNOWN.*did you mean "deny"/ })
  for (const [words, message] of [
    [
      ['nothing.yaml', 'http://x.test/'],
      /nothing\.yaml cannot be read: there is no such file \(ENOENT\); correct the path/
    ],
    [['policy.yaml', 'x.test'], /x\.test is no http\(s\) URL/],
    [['policy.yaml', '-H', 'nonsense', 'http://x.test/'], /--header: "nonsense"/],
    [['policy.yaml', '--client-ip', '1.2.3', 'http://x.test/'], /--client-ip: 1\.2\.3 is no IP address/],
    [['policy.yaml', '--at', 'tomorrow', 'http://x.test/'], /--at: tomorrow is no time/],
    [['policy.yaml', '--repeat', '0', 'http://x.test/'], /--repeat/],
    [['policy.yaml', '--every', 'soon', 'http://x.test/'], /--every: soon is no duration/]
  ] as const) {
    const ended = await sluice(folder, 'try', ...words)
    t.not(ended.code, 0, words.join(' '))
    t.match(ended.err, message)
  }
})
