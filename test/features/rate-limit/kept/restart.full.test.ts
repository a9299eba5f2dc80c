import { readFileSync, statSync } from 'node:fs'
import t from 'tap'
import { geometryOf } from '../../../../src/features/rate-limit/limiter/layout.js'
import { random, whole } from '../limiter/support/random.js'
import { Machine, MEBIBYTE, type Process } from './stand.js'

const RUNS = process.env.SLUICE_TEST_LONG === '1' ? 400 : 12
const STEPS = 1_500
const WINDOWS = [60, 600, 7_200, 86_400] as const

interface Admitted {
  readonly at: number
  readonly cost: number
  /** A checkpoint has come since. */
  kept: boolean
}

interface Limit {
  readonly name: string
  readonly seconds: number
  readonly capacity: number
  log: Admitted[]
}

const countSince = (log: readonly Admitted[], since: number) =>
  log.reduce((sum, { at, cost }) => (at > since ? sum + cost : sum), 0)

/** Traffic over restarts of every kind; what went wrong, or ''. */
async function run(machine: Machine, seed: number): Promise<string> {
  const next = random(seed)
  const { world } = machine
  const limits: Limit[] = Array.from({ length: 12 }, (_, i) => ({
    name: `limit ${i}`,
    seconds: WINDOWS[i % WINDOWS.length] as number,
    capacity: next() < 0.5 ? whole(next, 1, 64) : whole(next, 65, 5_000),
    log: []
  }))
  let process: Process = await machine.start()
  // Buckets may count more after clocks were set back, and after a kill, which keeps what came after the last checkpoint or does not.
  let exact = true
  let restarts = 0
  let checkpointAt = world.now
  const all = () => limits.flatMap(({ log }) => log)
  for (let step = 0; step < STEPS; step += 1) {
    const kind = next()
    if (kind < 0.98 && world.now - checkpointAt < 3_000_000) {
      const limit = limits[whole(next, 0, limits.length - 1)] as Limit
      const cost = next() < 0.8 ? 1 : whole(next, 1, Math.ceil(limit.capacity / 3))
      const { admitted } = process.window(limit.name, limit.seconds).take('key', limit.capacity, cost)
      const told = `seed ${seed}, step ${step}, ${limit.capacity} in ${limit.seconds} s, cost ${cost}`
      const { rate, grain } = geometryOf(limit.seconds)
      if (admitted) {
        limit.log.push({ at: world.now, cost, kept: false })
        const inWindow = countSince(limit.log, world.now - rate)
        if (inWindow > limit.capacity) return `${told}: ${inWindow} admitted in one window`
      } else if (exact && countSince(limit.log, world.now - rate - grain - 1 - restarts) + cost <= limit.capacity)
        return `${told}: refused without reason`
      world.now += next() < 0.4 ? 0 : Math.floor(next() * limit.seconds * 40_960) / 1_024
      limit.log = limit.log.filter(({ at }) => at > world.now - 3 * rate)
      continue
    }
    if (kind < 0.99) {
      checkpointAt = world.now
      await process.keeping.checkpoint()
      for (const one of all()) one.kept = true
      continue
    }
    if (kind < 0.995) {
      await machine.stop(process)
      for (const one of all()) one.kept = true
    } else {
      machine.kill()
      for (const limit of limits) limit.log = limit.log.filter(({ kept }) => kept)
      exact = false
    }
    if (next() < 0.5) world.now += Math.floor(next() ** 4 * 100_000_000)
    if (next() < 0.3) world.boots()
    if (next() < 0.2) {
      world.ahead -= Math.floor(next() * 10_000_000)
      exact = false
    }
    restarts += 1
    checkpointAt = world.now
    process = await machine.start()
    const wrong = process.lines.filter(({ level }) => (level as number) > 30)
    if (wrong.length > 0) return `seed ${seed}, step ${step}: ${JSON.stringify(wrong)}`
  }
  return ''
}

t.test('no window holds more than its capacity over stops, kills and clocks that are set back', async (t) => {
  const wrong: string[] = []
  for (let seed = 1; seed <= RUNS; seed += 1) {
    const message = await run(new Machine(t), seed * 7_919)
    if (message !== '') wrong.push(message)
  }
  t.same(wrong.slice(0, 3), [])
})

const KEYS = 3_000

/** What each bucket holds. */
function held(process: Process): number[] {
  return WINDOWS.flatMap((seconds) => {
    const window = process.window('each', seconds)
    return Array.from({ length: KEYS }, (_, i) => window.inspect(`client ${i}`).count)
  })
}

/** What was admitted: to which bucket as `held` has them, when, and how much. */
type Admission = readonly [bucket: number, at: number, cost: number]

/** What each bucket has admitted in its window. */
function exactly({ world }: Machine, log: readonly Admission[], buckets: number): number[] {
  const exact = new Array<number>(buckets).fill(0)
  for (const [bucket, at, cost] of log)
    if (at > world.now - (WINDOWS[Math.floor(bucket / KEYS)] as number) * 1_000) exact[bucket]! += cost
  return exact
}

/** Fills many buckets, some of them with counters. */
function traffic(machine: Machine, process: Process, seed: number, takes: number): Admission[] {
  const next = random(seed)
  const admitted: Admission[] = []
  for (let i = 0; i < takes; i += 1) {
    if (i % 50 === 0) machine.world.now += whole(next, 1, 800)
    const client = next() < 0.3 ? whole(next, 0, 20) : whole(next, 0, KEYS - 1)
    const [at, cost] = [whole(next, 0, 3), next() < 0.99 ? 1 : whole(next, 2, 400_000)]
    process.window('each', WINDOWS[at] as number).take(`client ${client}`, 2_000_000_000, cost)
    admitted.push([at * KEYS + client, machine.world.now, cost])
  }
  return admitted
}

t.test('a stop keeps every bucket, generation after generation', async (t) => {
  const machine = new Machine(t)
  const log: Admission[] = []
  for (let round = 1; round <= 6; round += 1) {
    const process = await machine.start(16 * MEBIBYTE)
    log.push(...traffic(machine, process, round, 20_000))
    await process.keeping.checkpoint()
    log.push(...traffic(machine, process, 100 + round, 5_000))
    const before = held(process)
    await machine.stop(process)
    const exact = exactly(machine, log, before.length)
    // The wall clock may have been up to a millisecond further than it has shown.
    machine.world.now += 1
    if (round === 3) machine.world.boots()
    const process2 = await machine.start(16 * MEBIBYTE)
    const after = held(process2)
    // A grain of counters is kept whole, and what of it has left the window is not read again.
    t.same(
      after.filter((count, i) => count < exact[i]! || count > before[i]!),
      [],
      `round ${round}`
    )
    t.equal(process2.table.statistics().buckets > 5_000, true)
    await machine.stop(process2)
  }
})

t.test('a base that is written beside traffic holds what its log does not', async (t) => {
  const machine = new Machine(t)
  const process = await machine.start(16 * MEBIBYTE)
  await process.keeping.checkpoint()
  const log: Admission[] = []
  for (let round = 0; round < 4; round += 1) {
    // More than four megabytes of log make a new base.
    for (const part of [0, 1, 2]) {
      log.push(...traffic(machine, process, 10 * round + part, 110_000))
      await process.keeping.checkpoint()
    }
    // It is being written, until it takes the place of the file.
    const { ino } = statSync(machine.file)
    for (let turn = 0; statSync(machine.file).ino === ino; turn += 1) {
      log.push(...traffic(machine, process, 1_000 * (round + 1) + turn, 100))
      if (turn % 50 === 0) await process.keeping.checkpoint()
      await new Promise((resolve) => setImmediate(resolve))
    }
  }
  await process.keeping.checkpoint()
  const before = held(process)
  machine.kill()
  const size = statSync(machine.file).size
  t.ok(size < log.length * 12, `logs became bases: ${size} bytes`)
  t.same(process.lines, [])
  machine.world.now += 1
  const after = held(await machine.start(16 * MEBIBYTE))
  const exact = exactly(machine, log, before.length)
  t.same(
    after.filter((count, i) => count < exact[i]!),
    [],
    'no bucket holds less'
  )
  const more = after.filter((count, i) => count > before[i]!)
  t.ok(more.length < before.length / 100, `${more.length} buckets count an admission twice`)
})

t.test('a smaller budget takes what it can, and the sketch the rest', async (t) => {
  const machine = new Machine(t)
  const process = await machine.start(32 * MEBIBYTE)
  const window = process.window('many', 600)
  const keys = Array.from({ length: 120_000 }, (_, i) => `client ${i}`)
  for (const [i, key] of keys.entries()) window.take(key, 100, 1 + (i % 3))
  await machine.stop(process)
  for (const budget of [MEBIBYTE, 4 * MEBIBYTE, 2 * MEBIBYTE]) {
    const smaller = await machine.start(budget)
    const after = smaller.window('many', 600)
    const less = keys.filter((key, i) => after.peek(key, 100).used < 1 + (i % 3))
    t.equal(less.length, 0, `${budget} bytes`)
    // Not from the log: a base of it all, with its sketch.
    await smaller.keeping.pause()
    smaller.keeping.resume()
    await machine.stop(smaller)
  }
})

t.test('a window that passed while nobody ran has passed', async (t) => {
  for (const seconds of WINDOWS) {
    const machine = new Machine(t)
    const first = await machine.start()
    for (let i = 0; i < 100; i += 1) first.window('a', seconds).take('k', 100)
    await machine.stop(first)
    machine.world.now += seconds * 1_000 - 10_000
    const second = await machine.start()
    t.equal(second.window('a', seconds).inspect('k').count, 100)
    await machine.stop(second)
    machine.world.boots()
    machine.world.now += 10_003
    const third = await machine.start()
    t.equal(third.window('a', seconds).inspect('k').count, 0)
    await machine.stop(third)
  }
})

t.test('a bucket that was emptied stays empty, and what came after counts', async (t) => {
  const machine = new Machine(t)
  let process = await machine.start()
  const fill = (count: number) => {
    for (let i = 0; i < count; i += 1) process.window('a', 600).take('k', 100)
  }
  fill(100)
  await machine.stop(process)
  process = await machine.start()
  machine.world.now += 10
  process.window('a', 600).forget('k')
  fill(3)
  await process.keeping.checkpoint()
  machine.kill()
  process = await machine.start()
  t.equal(process.window('a', 600).inspect('k').count, 3)
})

t.test('times go on by two days at most, and restarts let no file grow', async (t) => {
  const machine = new Machine(t)
  let most = 0
  let now = 0
  for (let round = 0; round < 8; round += 1) {
    const process = await machine.start()
    const begun = process.table.contents.now()
    t.ok(begun >= now && begun - now <= 2 * 86_400_000, `${begun - now} ms`)
    t.equal(process.window('a', 86_400).inspect('k').count, 0)
    for (let part = 0; part < 2; part += 1) {
      for (let i = 0; i < 100_000; i += 1) process.window('a', 86_400).take('k', 2_000_000_000)
      await process.keeping.checkpoint()
    }
    now = process.table.contents.now()
    await machine.stop(process)
    most = Math.max(most, statSync(machine.file).size)
    machine.world.now += 40 * 365 * 86_400_000
  }
  t.ok(most < 9 * 2 ** 20, `${most} bytes`)
})

t.test('more than a log holds makes a new base, and is said', async (t) => {
  const machine = new Machine(t)
  const process = await machine.start()
  await process.keeping.checkpoint()
  const window = process.window('a', 600)
  for (let i = 0; i < 200_000; i += 1) window.take('k', 2_000_000_000)
  await machine.stop(process)
  t.match(process.lines, [{ level: 40, msg: /more than could be written/ }])
  t.equal((await machine.start()).window('a', 600).inspect('k').count, 200_000)
})

t.test('records that have waited for hours are not taken for others: a new base is written', async (t) => {
  const machine = new Machine(t)
  const process = await machine.start()
  await process.keeping.checkpoint()
  for (let i = 0; i < 7; i += 1) process.window('a', 86_400).take('k', 100)
  machine.world.now += 5 * 3_600_000
  process.window('a', 86_400).take('k', 100)
  await process.keeping.checkpoint()
  t.match(process.lines, [{ level: 50, msg: /cannot be written/, err: { message: /took too long/ } }])
  await machine.stop(process)
  t.equal((await machine.start()).window('a', 86_400).inspect('k').count, 8)
})

t.test('a process that another one follows while it drains leaves the file to it', async (t) => {
  const machine = new Machine(t)
  const first = await machine.start()
  first.window('a', 600).take('k', 100)
  await first.keeping.checkpoint()
  const second = await machine.start()
  second.window('a', 600).take('k', 100)
  first.window('a', 600).take('k', 100)
  await machine.stop(first)
  await machine.stop(second)
  t.same([...first.lines, ...second.lines], [])
  t.equal((await machine.start()).window('a', 600).inspect('k').count, 2)
})

t.test('the file is for its owner, and a stopped process leaves nothing beside it', async (t) => {
  const machine = new Machine(t)
  const process = await machine.start()
  process.window('a', 600).take('k', 100)
  await machine.stop(process)
  t.equal(statSync(machine.file).mode & 0o777, 0o600)
  t.ok(readFileSync(machine.file).includes(Buffer.from(process.table.secret)))
})
