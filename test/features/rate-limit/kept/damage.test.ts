import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { crc32 } from 'node:zlib'
import t from 'tap'
import { NotCounters } from '../../../../src/features/rate-limit/kept/format.js'
import { KeptCounters } from '../../../../src/features/rate-limit/kept/reading.js'
import { until } from '../../../helpers/until.js'
import { Machine, type Process } from './stand.js'

/** A file with every kind of chunk: a base, a sketch, logs. */
async function written(machine: Machine): Promise<Buffer> {
  const process = await machine.start(2 ** 20)
  for (let i = 0; i < 40_000; i += 1) process.window('many', 600).take(`client ${i}`, 10)
  await process.keeping.pause()
  process.keeping.resume()
  await process.keeping.checkpoint()
  machine.world.now += 10
  process.window('few', 60).take('client', 10)
  process.window('few', 86_400).take('client', 2_000_000_000, 1_000_000)
  await machine.stop(process)
  return readFileSync(machine.file)
}

const checked = (file: string) => {
  const kept = KeptCounters.open(file)
  try {
    kept?.check()
  } finally {
    kept?.close()
  }
}

function refuses(file: string): boolean {
  try {
    checked(file)
    return false
  } catch (error) {
    if (!(error instanceof NotCounters)) throw error
    return true
  }
}

t.test('a change of any byte is found, and the file is refused as a whole', async (t) => {
  const machine = new Machine(t)
  const whole = await written(machine)
  const { file } = machine
  checked(file)
  const wrong: number[] = []
  for (let at = 0; at < whole.length; at += at < 4_096 || at > whole.length - 512 ? 1 : 997) {
    const damaged = Buffer.from(whole)
    damaged[at]! ^= 1 << (at % 8)
    writeFileSync(file, damaged)
    if (!refuses(file)) wrong.push(at)
  }
  t.same(wrong, [])
  for (const length of [0, 1, 63, 64, 127, 128, 140, 5_000, whole.length - 1]) {
    writeFileSync(file, whole.subarray(0, length))
    t.ok(refuses(file), `${length} bytes`)
  }
  writeFileSync(file, Buffer.concat([whole, Buffer.from('half a checkpoint')]))
  t.doesNotThrow(() => checked(file), 'what stands behind the mark was not finished')
})

const used = (process: Process) => process.window('few', 60).inspect('client').count

t.test('a file that is refused is moved, said, and begun anew', async (t) => {
  const machine = new Machine(t)
  const { file } = machine
  const whole = await written(machine)
  const later = Buffer.from(whole)
  new Uint32Array(later.buffer, later.byteOffset, 16)[2] = 2
  later.writeUInt32LE(crc32(later.subarray(0, 60)), 60)
  const cut = whole.subarray(0, 4_000)
  const changed = Buffer.from(whole)
  changed[whole.length - 10]! ^= 4
  for (const [content, reason] of [
    [later, /version 2/],
    [cut, /cut/],
    [changed, /damaged/]
  ] as const) {
    writeFileSync(file, content)
    const process = await machine.start()
    t.match(process.lines, [{ level: 50, msg: /moved and can be deleted/, reason }])
    t.notMatch(JSON.stringify(process.lines), Buffer.from(process.table.secret).toString('hex'))
    t.equal(used(process), 0)
    t.equal(process.table.statistics().buckets, 0, 'nothing of it counts')
    t.same(readFileSync(join(dirname(file), 'counters.refused')), content)
    process.window('few', 60).take('client', 10)
    await machine.stop(process)
    const next = await machine.start()
    t.equal(used(next), 1)
    await machine.stop(next)
  }
})

t.test('a folder that cannot be written is said once, and limits go on', async (t) => {
  const machine = new Machine(t)
  const folder = dirname(machine.file)
  // Where folders belong to root, a file in its place does what rights do elsewhere.
  mkdirSync(dirname(folder), { recursive: true })
  writeFileSync(folder, '')
  const process = await machine.start()
  t.ok(process.window('few', 60).take('client', 1).admitted)
  t.notOk(process.window('few', 60).take('client', 1).admitted)
  const said = (what: RegExp) => process.lines.filter(({ msg }) => what.test(String(msg))).length
  for (let attempt = 0; attempt < 3; attempt += 1) {
    await process.keeping.checkpoint()
    machine.world.now += 31_000
    await until(() => said(/cannot be written: traffic goes on/) === 1)
  }
  process.window('few', 600).take('other', 1)
  rmSync(folder)
  machine.world.now += 31_000
  await until(() => said(/are written again/) === 1)
  t.equal(said(/cannot be written/), 1)
  await machine.stop(process)
  const next = await machine.start()
  t.same(next.lines, [])
  t.equal(next.window('few', 600).inspect('other').count, 1, 'what was admitted meanwhile')
  await machine.stop(next)
})
