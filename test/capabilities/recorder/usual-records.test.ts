import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { account, visit } from '../../helpers/account.js'
import { startSluice } from '../../helpers/sluice.js'

t.test('the recorder keeps few of many exchanges by itself, and none where the option says so', async (t) => {
  const server = createServer((_request, response) => response.end('here'))
  await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready))
  t.teardown(() => new Promise((done) => server.close(done)))
  const { port } = server.address() as AddressInfo
  const usual = await startSluice(t, { upstream: { port } })
  for (let n = 0; n < 40; n++) await visit(usual, 'any.test', { path: `/${n}` })
  const { exchanges } = (await account(usual)('/exchanges')).json.recorder
  t.ok(exchanges >= 5 && exchanges < 40, `${exchanges} of 40`)
  const off = await startSluice(t, { upstream: { port }, options: { RECORDER_WHERE: 'false' } })
  await visit(off, 'any.test')
  t.equal((await account(off)('/exchanges')).json.recorder.exchanges, 0)
})
