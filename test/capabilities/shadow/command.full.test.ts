import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { runCommand } from '../../cli/command.js'
import { SluiceProcess } from '../../cli/process.js'
import { API_KEY, startSluice } from '../../helpers/sluice.js'

const DENY =
  'on_http_request: [{ name: closed, expressions: ["req.url.path == \'/closed\'"], actions: [{ type: deny }] }]'

async function open(t: Test) {
  const upstream = createServer((_request, response) => response.end())
  await new Promise<void>((ready) => upstream.listen(0, '127.0.0.1', ready))
  t.teardown(() => new Promise((done) => upstream.close(done)))
  const { port } = upstream.address() as AddressInfo
  const sluice = await startSluice(t, { upstream: { port }, policy: 'on_http_request: []' })
  const folder = t.testdir({
    'deny.yaml': DENY,
    'open.yaml': 'on_http_request: []',
    'wrong.yaml': 'on_http_request:\n  - a: 1'
  })
  const api = `http://127.0.0.1:${sluice.apiPort}`
  const options = { cwd: folder, env: { SLUICE_API_KEY: API_KEY } }
  const shadow = (...words: string[]) => new SluiceProcess(t, ['shadow', '--api', api, ...words], options)
  const ended = (...words: string[]) => runCommand(t, ['shadow', '--api', api, ...words], options)
  const call = async () => {
    const answer = await fetch(`${api}/shadows`, {
      headers: { authorization: `Bearer ${API_KEY}`, 'service-version': '2' }
    })
    return ((await answer.json()) as { shadows: { counts: { seen: number } }[] }).shadows
  }
  /** Sends once a shadow runs; resolves when it has seen all. */
  const traffic = async (...paths: string[]) => {
    while ((await call()).length === 0) await new Promise((turn) => setTimeout(turn, 20))
    for (const path of paths) await (await fetch(`http://127.0.0.1:${sluice.port}${path}`)).arrayBuffer()
    while ((await call())[0]?.counts.seen !== paths.length) await new Promise((turn) => setTimeout(turn, 20))
  }
  return { shadow, ended, traffic, call, folder }
}

t.test('a policy is tried beside traffic from the command line', async (t) => {
  const { shadow, ended, traffic, call, folder } = await open(t)
  const differing = shadow('deny.yaml', '--for', '5s', '--budget', '50ms')
  await traffic('/', '/closed')
  const { code, out } = await differing.ended()
  t.equal(code, 1)
  t.match(
    out,
    /^2 seen, 2 judged, 1 changed, 0 not judged\nended: its time is over\n1: forwarded → denied 403 POLICY_DENIED by closed\n {4}GET 127\.0\.0\.1:\d+\/closed from 127\.0\.0\.1$/
  )
  t.same(await call(), [], 'the process keeps nothing of it')

  const same = shadow('open.yaml', '--json', '--budget', '50ms')
  await traffic('/closed')
  same.child.kill('SIGINT')
  const stopped = await same.ended()
  t.equal(stopped.code, 0)
  t.match(JSON.parse(stopped.out), { counts: { seen: 1, same: 1 }, name: 'open.yaml', share: 1 })

  t.match(await ended('open.yaml', '--for', '1s', '--share', '10%'), { code: 2, out: /^0 seen/ }, 'nothing was judged')
  t.match(await ended('wrong.yaml'), { code: 2, err: /^error: wrong\.yaml:2:5: / })
  t.match(await ended('open.yaml', '--route', 'nowhere'), { code: 2, err: /no route nowhere/ })
  t.match(await ended('open.yaml', '--share', 'half'), { code: 2, err: /--share: half is no share/ })
  t.match(await ended(join(folder, 'gone.yaml')), { code: 2, err: /ENOENT/ })
  t.match(await ended('open.yaml', '--api', 'http://192.0.2.1:4040'), { code: 2, err: /clear text/ })
})
