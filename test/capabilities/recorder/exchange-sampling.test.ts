import { createServer, get } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { account } from '../../helpers/account.js'
import { type RunningSluice, startSluice } from '../../helpers/sluice.js'
import { until } from '../../helpers/until.js'

const POLICY = `on_http_request:
  - name: closed
    expressions: ["req.url.path == '/closed'"]
    actions: [{ type: deny }]
`

async function stand(t: Test) {
  const upstream = createServer((_request, response) => response.end())
  await new Promise<void>((ready) => upstream.listen(0, '127.0.0.1', ready))
  t.teardown(() => new Promise((done) => upstream.close(done)))
  const { port } = upstream.address() as AddressInfo
  const sluice = await startSluice(t, { upstream: { port }, policy: POLICY, options: { RECORDER_WHERE: 'false' } })
  return { sluice, url: `http://127.0.0.1:${sluice.port}`, call: account(sluice) }
}

interface Followed {
  // biome-ignore lint/suspicious/noExplicitAny: exchanges are looked at member by member.
  readonly exchanges: any[]
  sampled: number
  readonly path: string
}

async function follow(t: Test, { apiPort, apiKey }: RunningSluice, query: string): Promise<Followed> {
  const followed: Followed = { exchanges: [], sampled: 0, path: `/exchanges/stream?${query}` }
  let text = ''
  await new Promise<void>((following, refused) => {
    const headers = { authorization: `Bearer ${apiKey}`, 'service-version': '2' }
    const sent = get({ host: '127.0.0.1', port: apiPort, path: followed.path, headers, agent: false }, (response) => {
      response.setEncoding('utf8').on('data', (chunk: string) => {
        following()
        text += chunk
        for (let end = text.indexOf('\n\n'); end !== -1; end = text.indexOf('\n\n')) {
          const [, name, data = 'null'] = /^event: (\w+)\n(?:id: \S*\n)?data: (.*)/.exec(text.slice(0, end)) ?? []
          text = text.slice(end + 2)
          if (name === 'exchange') followed.exchanges.push(JSON.parse(data))
          if (name === 'sampled') followed.sampled += JSON.parse(data).count
        }
      })
    })
    sent.on('error', refused)
    t.teardown(() => void sent.destroy())
  })
  return followed
}

t.test(
  'a follower gets no more than the rate it asks for, explained, and learns how many it did not get',
  async (t) => {
    const { sluice, url, call } = await stand(t)
    const begun = performance.now()
    const followed = await follow(t, sluice, 'explain=true&rate=5')
    for (let n = 0; n < 200; n++) await fetch(url)
    await until(() => followed.exchanges.length + followed.sampled === 200)
    const most = 5 + ((performance.now() - begun) / 1_000) * 5
    t.ok(followed.exchanges.length >= 5 && followed.exchanges.length <= most, `${followed.exchanges.length} of 200`)
    t.ok(
      followed.exchanges.every(({ explanation }) => explanation?.decision.status === 200),
      'what it gets is what was explained'
    )
    t.equal((await call('/exchanges')).json.recorder.exchanges, followed.exchanges.length, 'the others are not kept')
  }
)

t.test('what is meant alone counts, and is left out alone', async (t) => {
  const { sluice, url } = await stand(t)
  const refusals = await follow(t, sluice, 'explain=true&rate=20&status=403&method=post&client=127.0.0.1')
  const others = await follow(t, sluice, 'explain=true&rate=20&client=203.0.113.9')
  for (let n = 0; n < 50; n++) await fetch(url)
  for (let n = 0; n < 3; n++) await fetch(`${url}/closed`, { method: 'POST' })
  await until(() => refusals.exchanges.length === 3)
  t.ok(
    refusals.exchanges.every(({ explanation }) => explanation !== null),
    'requests that it cannot mean take none of its explanations'
  )
  t.same([refusals.sampled, others.sampled, others.exchanges.length], [0, 0, 0])
})

t.test('a rate is a number', async (t) => {
  const { call } = await stand(t)
  for (const rate of ['0', 'all', '10001'])
    t.match((await call(`/exchanges/stream?rate=${rate}`)).json, { status_code: 400, details: { field: 'rate' } }, rate)
})
