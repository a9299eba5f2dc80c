import { execFileSync } from 'node:child_process'
import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { sql } from 'kysely'
import Libsql from 'libsql'
import t, { type Test } from 'tap'
import { SqliteHere, sqliteDatabase } from '../../src/store/sqlite.js'
import { asker } from '../api/asking.js'
import { type Stand, startStand } from '../cli/storm.js'
import { lacks, noImmutableFiles, noSmallDisk, ON_DISK, SmallDisk } from '../helpers/small-disk.js'
import { until } from '../helpers/until.js'
import { folder } from '../store/opened.js'

const HOST = 'shop.test'

interface Breaking {
  readonly prepare: (stand: Stand) => Fault
  /** Bytes that a write is larger. */
  readonly padding?: number
  /** Writes that are tried after the first one was refused. */
  readonly more?: number
  /** What /readyz says meanwhile. Absent: nothing. */
  readonly reason?: string
}

/** Breaks the disk below the store, in a way that ends. */
interface Fault {
  readonly breaks: () => void
  readonly mends: () => void
}

function answering(marker: string, padding = 0): string {
  const config = { status_code: 200, body: marker }
  const on_http_request = [{ name: 'p'.repeat(padding), actions: [{ type: 'custom-response', config }] }]
  return JSON.stringify({ on_http_request })
}

class Site {
  readonly #stand: Stand
  route = ''

  constructor(stand: Stand) {
    this.#stand = stand
  }

  async make(): Promise<void> {
    const { ask } = this.#stand
    const edge = await ask('/edges/https', { method: 'POST', body: { hostports: [`${HOST}:443`] } })
    const routes = `/edges/https/${edge.json.id}/routes`
    const body = { match: '/', traffic_policy: { value: answering('first') } }
    this.route = `${routes}/${(await ask(routes, { method: 'POST', body })).json.id}`
  }

  write(marker: string, padding?: number) {
    const body = { traffic_policy: { value: answering(marker, padding) } }
    return this.#stand.ask(this.route, { method: 'PATCH', body })
  }

  /** What traffic meets. */
  async serves(): Promise<string> {
    const { hostname, port } = new URL(this.#stand.traffic)
    return (await asker(hostname, Number(port))('/', { headers: { host: HOST } })).text
  }

  async stored(): Promise<string> {
    const { json } = await this.#stand.ask(this.route)
    return JSON.parse(json.traffic_policy.value).on_http_request[0].actions[0].config.body
  }
}

/** Writes are refused as long as the fault lasts, what was acknowledged keeps serving, and all comes back by itself. */
async function survives(t: Test, data: string, { padding = 0, more = 3, reason, prepare }: Breaking): Promise<void> {
  const cwd = await folder(t)
  const stand = await startStand(t, cwd, { SLUICE_DATA: data })
  const site = new Site(stand)
  await site.make()
  const { breaks, mends } = prepare(stand)
  const changes: string[] = []
  for (const round of ['once', 'and again']) {
    breaks()
    let last = await site.stored()
    // What still fits may still be written.
    let refused: Awaited<ReturnType<Site['write']>> | undefined
    for (let n = 0; refused === undefined && n < 500; n++) {
      const answer = await site.write(`${round} ${n}`, padding)
      if (answer.status === 200) last = `${round} ${n}`
      else refused = answer
    }
    t.equal(refused?.status, 503, refused?.text ?? 'no write was refused')
    t.equal(refused?.json.error_code, 'ERR_SLUICE_UNAVAILABLE')
    const others = Array.from({ length: more }, (_, n) => site.write(`too much ${n}`, padding))
    for (const { status } of await Promise.all(others)) t.equal(status, 503, 'it stays so')
    t.equal(await site.serves(), last, 'what was acknowledged last keeps serving')
    t.equal(await site.stored(), last, 'and can be read')
    const ready = await stand.ask('/readyz')
    t.equal(ready.status, 200, 'traffic is not sent elsewhere')
    t.same(ready.json.reasons, reason === undefined ? [] : [reason])
    t.same((await stand.ask('/healthz')).json, { status: reason === undefined ? 'ok' : 'degraded' })
    mends()
    t.equal((await site.write(`${round} mended`)).status, 200, 'it recovers by itself')
    t.equal(await site.serves(), `${round} mended`)
    await until(async () => (await stand.ask('/readyz')).json.status === 'ready')
    changes.push('degraded', 'no longer degraded')
    if (reason === undefined) continue
    const told = () => stand.process.lines.filter((line) => line.reason === reason)
    await until(() => told().length >= changes.length)
    t.same(
      told().map(({ msg }) => String(msg).split(':')[0]),
      changes,
      'one line for each change'
    )
  }
  stand.process.child.kill('SIGKILL')
  await stand.process.ended()
  const database = sqliteDatabase(join(data, 'sluice.db'), SqliteHere.open(join(data, 'sluice.db')))
  const { rows } = await sql<{ integrity_check: string }>`pragma integrity_check`.execute(database.reads)
  t.same(rows, [{ integrity_check: 'ok' }])
  const stored = database.reads.selectFrom('records').select('body').where('kind', '=', 'https_edge_route')
  const { body } = await stored.executeTakeFirstOrThrow()
  t.match(body, 'and again mended', 'what was acknowledged last is in the file')
  await database.close()
}

/** What writes go to: the file itself is only changed by checkpoints. */
const wal = (data: string) => join(data, 'sluice.db-wal')

t.test('a limit on the size of files', { skip: lacks('prlimit', ['--version']) }, async (t) => {
  const data = join(await folder(t), 'data')
  const limit = (stand: Stand, bytes: string) => {
    execFileSync('prlimit', ['--pid', String(stand.process.child.pid), `--fsize=${bytes}:unlimited`])
  }
  await survives(t, data, {
    reason: 'store_failing',
    prepare: (stand) => ({
      breaks: () => limit(stand, String(statSync(wal(data)).size + 20_000)),
      mends: () => limit(stand, 'unlimited')
    })
  })
})

t.test('a full disk', { skip: noSmallDisk() }, async (t) => {
  const disk = SmallDisk.mount(t, join(await folder(t), 'data'))
  await survives(t, disk.folder, {
    padding: 200,
    reason: 'store_full',
    prepare: () => ({ breaks: () => disk.fill(), mends: () => disk.empty() })
  })
})

t.test('files that may no longer be changed', { skip: noImmutableFiles() }, async (t) => {
  const data = join(await folder(t, ON_DISK), 'data')
  const files = () => [wal(data), join(data, 'sluice.db')].filter((path) => existsSync(path))
  const change = (flag: string) => {
    execFileSync('chattr', [flag, ...files()], { stdio: 'pipe' })
  }
  t.teardown(() => change('-i'))
  await survives(t, data, {
    reason: 'store_failing',
    prepare: () => ({ breaks: () => change('+i'), mends: () => change('-i') })
  })
})

t.test('another program that holds the file', async (t) => {
  const data = join(await folder(t), 'data')
  let holder: Libsql.Database | undefined
  const breaks = () => {
    holder = new Libsql(join(data, 'sluice.db'))
    holder.exec('begin immediate')
  }
  const mends = () => {
    holder?.exec('rollback')
    holder?.close()
  }
  // Each write waits for two seconds first.
  await survives(t, data, { more: 0, prepare: () => ({ breaks, mends }) })
})
