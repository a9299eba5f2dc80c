import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import t from 'tap'
import { startStand } from '../cli/storm.js'
import { until } from '../helpers/until.js'
import { folder } from '../store/opened.js'

function lacksPrlimit(): string | false {
  try {
    execFileSync('prlimit', ['--version'], { stdio: 'ignore' })
    return false
  } catch {
    return 'prlimit does not work here'
  }
}

t.test('descriptors that run out are told before and while there are none', { skip: lacksPrlimit() }, async (t) => {
  const stand = await startStand(t, await folder(t), { SLUICE_LIMITS_CONNECTIONS: '5000' })
  const { child, lines } = stand.process
  const readings = async () => {
    const { text } = await stand.ask('/metrics')
    const value = (name: string) => Number(new RegExp(`^${name} (\\d+)`, 'm').exec(text)?.[1])
    return { used: value('process_open_fds'), allowed: value('process_max_fds') }
  }
  await until(async () => (await readings()).used > 10)
  const { used } = await readings()
  const allowed = used + 60
  execFileSync('prlimit', ['--pid', String(child.pid), `--nofile=${allowed}`])
  await until(async () => (await readings()).allowed === allowed)
  t.same((await stand.ask('/readyz')).json.reasons, [])

  const { hostname, port } = new URL(stand.traffic)
  const clients: Socket[] = []
  t.teardown(() => {
    for (const client of clients) client.destroy()
  })
  const closed: Socket[] = []
  const open = async (count: number) => {
    const coming = Array.from({ length: count }, () => connect(Number(port), hostname))
    for (const client of coming) client.on('error', () => undefined).on('close', () => closed.push(client))
    clients.push(...coming)
    await Promise.all(coming.map((client) => once(client, 'connect')))
  }
  const about = () => lines.filter(({ reason }) => reason === 'descriptors_short')

  await open(56)
  await until(() => about().length === 1)
  t.match(about()[0], { level: 40, allowed, msg: /^degraded: few file descriptors are left/ })
  const short = await stand.ask('/readyz')
  t.equal(short.status, 200)
  t.same(short.json.reasons, ['descriptors_short'])
  await open(30)
  await until(() => closed.length > 0)
  t.ok(closed.length < 40, 'those that came before stay')
  t.equal(about().length, 1, 'it is said once, and not with each connection')
  for (const client of clients) client.destroy()
  await until(() => about().length === 2)
  t.match(about()[1], { level: 30, msg: 'no longer degraded: descriptors_short' })
  t.same((await stand.ask('/readyz')).json.reasons, [])
})

t.test('what the manual says about metrics is there', async (t) => {
  const before = Date.now() / 1_000
  const stand = await startStand(t, await folder(t), {})
  const values = async () => {
    const { text } = await stand.ask('/metrics')
    return new Map([...text.matchAll(/^(\w+) (\S+)$/gm)].map(([, name, value]) => [name, Number(value)]))
  }
  await until(async () => (await values()).has('process_open_fds') || process.platform !== 'linux')
  const found = await values()
  const inRange = (name: string, least: number, most: number) => {
    const value = found.get(name) ?? Number.NaN
    t.ok(value >= least && value <= most, `${name} ${value}`)
  }
  inRange('sluice_store_up', 1, 1)
  inRange('sluice_revisions_behind', 0, 0)
  inRange('sluice_last_apply_timestamp_seconds', before, Date.now() / 1_000)
  inRange('sluice_log_dropped_total', 0, 0)
  for (const part of ['p50', 'p99', 'max']) inRange(`nodejs_eventloop_lag_${part}_seconds`, 0, 60)
  inRange('nodejs_heap_size_used_bytes', 1e6, 1e10)
  inRange('nodejs_heap_size_total_bytes', found.get('nodejs_heap_size_used_bytes') ?? 0, 1e10)
  inRange('nodejs_external_memory_bytes', 1, 1e10)
})
