import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { asker } from '../../api/asking.js'
import { SluiceProcess } from '../../cli/process.js'
import { receiver } from './receiver.js'

const FREE = ['--listen', '127.0.0.1:0', '--api', '127.0.0.1:0']
const KILLS = 2

t.test('what was answered with success is delivered although the process is killed again and again', async (t) => {
  const sink = await receiver(t, (_request, response, count) => {
    if (count % 23 === 3) response.writeHead(500).end()
    else setTimeout(() => response.writeHead(204).end(), 5)
  })
  const cwd = t.testdir()
  const env = {
    SLUICE_API_KEY: 'a-key-of-the-administrator',
    SLUICE_DATA: join(cwd, 'data'),
    SLUICE_LIMITER_BUDGET: '64MiB',
    SLUICE_OUTBOUND_ALLOW_PRIVATE: 'true',
    SLUICE_API_RATE_LIMIT: 'off'
  }
  const start = async () => {
    const sluice = new SluiceProcess(t, ['start', ...FREE], { cwd, env })
    const { api, traffic } = (await sluice.logged('listening')) as { api: string; traffic: string }
    const { hostname, port } = new URL(api)
    return { sluice, traffic, ask: asker(hostname, Number(port)) }
  }
  const path = join(cwd, 'data', 'events', 'events.log')
  const answered: string[] = []
  let life = await start()
  const made = async (where: string, body: object) => {
    const answer = await life.ask(where, { method: 'POST', body })
    t.equal(answer.status, 201, answer.text)
    return String(answer.json.id)
  }
  const destinations = [
    await made('/event_destinations', { target: { webhook: { url: sink.url, secret: 'signed' } } }),
    await made('/event_destinations', { target: { file: { path } } })
  ]
  const sources = [{ type: 'vault_created.v0' }]
  await made('/event_subscriptions', { sources, destination_ids: destinations })
  for (let kill = 0; kill < KILLS; kill++) {
    const before = answered.length
    let dead = false
    const writing = (async () => {
      for (let n = 0; !dead && n < 60; n++) {
        const answer = await life
          .ask('/vaults', { method: 'POST', body: { name: `${kill}-${n}` } })
          .catch(() => undefined)
        if (answer?.status === 201) answered.push(String(answer.json.id))
      }
    })()
    const seen = sink.taken.length
    await sink.until(() => sink.taken.length >= seen + 10)
    life.sluice.child.kill('SIGKILL')
    dead = true
    await writing
    t.ok(answered.length > before)
    await life.sluice.ended()
    life = await start()
  }
  const ids = () => new Set(sink.taken.map(({ object }) => String(object.id)))
  await sink.until(() => answered.every((id) => ids().has(id)))
  const first = new Map<string, number>()
  for (const [index, { object }] of sink.taken.entries()) {
    if (!first.has(String(object.id))) first.set(String(object.id), index)
  }
  const order = answered.map((id) => first.get(id) ?? -1)
  t.same(
    order,
    [...order].sort((a, b) => a - b),
    'in the order of the writes, repetitions aside'
  )
  const file = await life.ask(`/event_destinations/${destinations[1]}`)
  t.match(file.json.delivery, { state: 'ok', failures: 0 })
  life.sluice.child.kill('SIGTERM')
  t.equal((await life.sluice.ended()).code, 0)
  const lines = (await readFile(path, 'utf8')).trimEnd().split('\n')
  const written = new Set(lines.flatMap((line) => (line.endsWith('}') ? [String(JSON.parse(line).object.id)] : [])))
  t.same(
    answered.filter((id) => !written.has(id)),
    [],
    'the file has them all'
  )
  t.comment(`${answered.length} answered, ${sink.taken.length} taken, ${lines.length} lines`)
})
