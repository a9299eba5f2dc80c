import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { exitOf, Stand } from '../capabilities/take-over/take-over-stand.js'
import { until } from '../helpers/until.js'
import { SHARES_LISTENERS, type SluiceProcess } from './process.js'

const OFTEN = { SLUICE_LIMITER_CHECKPOINT: '250ms' }

const fileOf = ({ folder }: Stand) => join(folder, 'data', 'limits', 'counters')

/** The file, as soon as it is there. */
async function written(stand: Stand): Promise<Buffer> {
  await until(async () => {
    try {
      return statSync(fileOf(stand)).size > 0
    } catch {
      return false
    }
  })
  return readFileSync(fileOf(stand))
}

/** Admissions in the logs of a file, as far as they count. */
function logged(file: Buffer): number {
  let records = 0
  for (let at = 128; at < file.readDoubleLE(64); at += 32 + file.readUInt32LE(at + 4))
    if (file.readUInt32LE(at) === 3) records += file.readUInt32LE(at + 4) / 16
  return records
}

async function admitted(stand: Stand, count: number): Promise<void> {
  const answers = await Promise.all(Array.from({ length: count }, () => stand.limited()))
  stand.t.same(answers, new Array(count).fill(200), `${count} are admitted`)
}

async function ends(sluice: SluiceProcess, signal: NodeJS.Signals): Promise<void> {
  sluice.child.kill(signal)
  await exitOf(sluice)
}

for (const workers of SHARES_LISTENERS ? ['0', '2'] : ['0']) {
  const more = { SLUICE_WORKERS: workers }

  t.test(`a stop keeps what limits have counted, workers: ${workers}`, async (t) => {
    const stand = await Stand.open(t, more)
    for (const count of [2, 2, 1]) {
      const sluice = stand.start()
      await sluice.logged('listening')
      await admitted(stand, count)
      await ends(sluice, 'SIGTERM')
    }
    const last = stand.start()
    await last.logged('listening')
    t.equal(await stand.limited(), 429)
    const [limit] = (await stand.ask('/limits', { key: 'a-key-of-the-administrator' })).json.limits
    t.match(limit, { admitted: 0, refused: 1, buckets: 0 }, 'counts are of this process')
    t.equal(statSync(fileOf(stand)).mode & 0o777, 0o600)
    await ends(last, 'SIGTERM')
    const { out } = await last.ended()
    const secret = readFileSync(fileOf(stand)).subarray(16, 32)
    for (const form of ['hex', 'base64'] as const) t.notMatch(out, secret.toString(form).slice(0, 16))
  })

  t.test(`a kill keeps all but the last interval, workers: ${workers}`, async (t) => {
    const stand = await Stand.open(t, { ...more, ...OFTEN })
    const first = stand.start()
    await first.logged('listening')
    await written(stand)
    await admitted(stand, 4)
    await until(async () => logged(await written(stand)) === 4)
    await ends(first, 'SIGKILL')
    const second = stand.start()
    await second.logged('listening')
    await admitted(stand, 1)
    t.equal(await stand.limited(), 429)
  })
}

t.test('a file that is damaged is said, moved, and costs no start', async (t) => {
  const stand = await Stand.open(t)
  const first = stand.start()
  await first.logged('listening')
  await admitted(stand, 5)
  await ends(first, 'SIGTERM')
  const damaged = readFileSync(fileOf(stand))
  damaged[damaged.length - 3]! ^= 1
  writeFileSync(fileOf(stand), damaged)
  const second = stand.start()
  const line = await second.logged('the file of counters is damaged')
  t.match(line, { level: 50, reason: 'a part of it is damaged', refused: `${fileOf(stand)}.refused` })
  await second.logged('listening')
  await admitted(stand, 5)
  t.same(readFileSync(`${fileOf(stand)}.refused`), damaged)
})

t.test('counters go from a process to its successor, and are written by that one alone', async (t) => {
  const stand = await Stand.open(t, OFTEN)
  const old = stand.start()
  await old.logged('listening')
  await admitted(stand, 2)
  const before = await written(stand)
  const { ino } = statSync(fileOf(stand))
  const { asking, pid } = await stand.takeOver()
  await asking.told('serves; the old one exits')
  await admitted(stand, 2)
  await until(() => statSync(fileOf(stand)).ino !== ino)
  const base = await written(stand)
  t.same(base.subarray(16, 32), before.subarray(16, 32), 'the secret goes on')
  t.equal(await exitOf(old), 0)
  await admitted(stand, 1)
  await until(async () => logged(await written(stand)) > logged(base))
  process.kill(pid, 'SIGKILL')
  await asking.ended()
  const third = stand.start()
  await third.logged('listening')
  t.equal(await stand.limited(), 429)
})

t.test('where a successor has another budget, the counters of the folder go on', async (t) => {
  const stand = await Stand.open(t)
  const old = stand.start()
  await old.logged('listening')
  await admitted(stand, 3)
  const { asking } = await stand.takeOver({ SLUICE_LIMITER_BUDGET: '32MiB' })
  await asking.told('serves; the old one exits')
  await admitted(stand, 2)
  t.equal(await stand.limited(), 429)
  // The table of one thread goes over as it is, which needs the same budget.
  if (process.env.TEST_WORKERS === undefined) await old.logged('counters of limits come from the data folder')
  t.equal(await exitOf(old), 0)
})

t.test('limiter.checkpoint: off keeps nothing', async (t) => {
  const stand = await Stand.open(t, { SLUICE_LIMITER_CHECKPOINT: 'off' })
  for (let start = 0; start < 2; start++) {
    const sluice = stand.start()
    await sluice.logged('listening')
    await admitted(stand, 5)
    await ends(sluice, 'SIGTERM')
  }
  t.throws(() => statSync(fileOf(stand)), { code: 'ENOENT' })
})
