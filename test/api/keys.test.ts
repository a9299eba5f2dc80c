import { readdir, readFile, stat, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { createKey, listKeys, openKeys, revokeKey } from '../../src/control/operator-keys.js'
import { systemClock } from '../../src/lib/clock.js'
import { newId } from '../../src/lib/id.js'
import { newSealKey, parseSealKey, Sealer } from '../../src/lib/seal.js'

const clock = systemClock
const seal = new Sealer(parseSealKey(newSealKey()))
const open = (folder: string | undefined, given?: string, sealer = seal) =>
  openKeys(folder, given, { clock, seal: async () => sealer })

t.test('the first start makes a key; each start shows it until it was used, later ones use it', async (t) => {
  const folder = join(t.testdir(), 'data')
  const path = join(folder, 'api-keys.json')
  const lost = await open(folder)
  await t.rejects(stat(folder), { code: 'ENOENT' }, 'a start that fails before it shows the key leaves nothing')

  const first = await open(folder)
  const key = first.unused ?? ''
  t.match(key, /^sluice_[A-Za-z0-9_-]{43}$/)
  t.not(key, lost.unused)
  await first.keys.keepShown()
  t.equal((await stat(path)).mode & 0o777, 0o600)
  t.notMatch(await readFile(path, 'utf8'), key, 'not in plain text')
  for (const _ of [1, 2]) {
    const again = await open(folder)
    t.equal(again.unused, key, 'whoever missed it sees it again')
    await again.keys.keepShown()
    t.equal(await again.keys.accepts(`${key}x`), false)
  }
  t.equal((await open(folder, 'x'.repeat(16))).unused, undefined, 'who has a key needs no other')

  const used = await open(folder)
  t.equal(await used.keys.accepts(key), true)
  t.equal(JSON.parse(await readFile(path, 'utf8')).keys[0].unused, undefined, 'only its hash is left')
  const later = await open(folder)
  t.equal(later.unused, undefined)
  t.equal(await later.keys.accepts(key), true)
})

t.test('a key that is used before it is kept is kept as used', async (t) => {
  for (const during of [false, true]) {
    const folder = t.testdir()
    const { keys, unused = '' } = await open(folder)
    const kept = during ? keys.keepShown() : undefined
    t.equal(await keys.accepts(unused), true)
    await (kept ?? keys.keepShown())
    await keys.keepShown()
    const later = await open(folder)
    t.equal(later.unused, undefined, `while it is written: ${during}`)
    t.equal(await later.keys.accepts(unused), true)
  }
})

t.test('a key that cannot be stored is told and opens the API all the same', async (t) => {
  const folder = join(t.testdir(), 'data')
  const { keys, unused = '' } = await open(folder)
  await writeFile(folder, 'in the way')
  await t.rejects(keys.keepShown(), { code: 'API_KEYS_UNREADABLE' })
  t.equal(await keys.accepts(unused), true)
})

t.test('an unused key that cannot be opened any more is followed by another, and still counts', async (t) => {
  const folder = t.testdir()
  const first = await open(folder)
  await first.keys.keepShown()
  const other = new Sealer(parseSealKey(newSealKey()))
  const second = await open(folder, undefined, other)
  t.not(second.unused ?? first.unused, first.unused)
  await second.keys.keepShown()
  t.equal((await open(folder, undefined, other)).unused, second.unused)
  t.equal(await second.keys.accepts(first.unused ?? ''), true)
})

t.test('the file holds hashes only, for its owner only, and nothing else lies beside it', async (t) => {
  const folder = join(t.testdir(), 'data')
  const key = await createKey(folder, systemClock)
  await createKey(folder, systemClock)
  t.same(await readdir(folder), ['api-keys.json'])
  const path = join(folder, 'api-keys.json')
  t.equal((await stat(path)).mode & 0o777, 0o600)
  t.equal((await stat(folder)).mode & 0o777, 0o700)
  const text = await readFile(path, 'utf8')
  t.notMatch(text, key)
  t.equal(JSON.parse(text).keys.length, 2)
})

t.test('keys that are made, shown, used and revoked at once are all written', async (t) => {
  const folder = t.testdir()
  const { keys, unused = '' } = await open(folder)
  const old = await createKey(folder, systemClock)
  const [gone] = await listKeys(folder)
  await Promise.all([
    keys.keepShown(),
    ...Array.from({ length: 10 }, () => createKey(folder, systemClock)),
    revokeKey(folder, gone?.id ?? ''),
    keys.accepts(unused),
    ...Array.from({ length: 10 }, () => createKey(folder, systemClock))
  ])
  t.equal((await listKeys(folder)).length, 21)
  t.equal(await keys.accepts(unused), true)
  t.equal(await keys.accepts(old), false)
  t.same(await readdir(folder), ['api-keys.json'], 'no lock is left')
})

t.test('a lock that a process has left as it died holds nothing up for good', async (t) => {
  const folder = t.testdir()
  const lock = join(folder, 'api-keys.json.lock')
  await writeFile(lock, '')
  await utimes(lock, 0, 0)
  await Promise.all(Array.from({ length: 5 }, () => createKey(folder, systemClock)))
  t.equal((await listKeys(folder)).length, 5)
  t.same(await readdir(folder), ['api-keys.json'])
})

t.test('a key made meanwhile by another process counts at once', async (t) => {
  const folder = t.testdir()
  const { keys, unused = '' } = await open(folder)
  await keys.keepShown()
  const other = await createKey(folder, systemClock)
  t.equal(await keys.accepts(other), true)
  t.equal(await keys.accepts(unused), true, 'the first one still counts')
})

t.test('the key of the environment makes no file and is checked', async (t) => {
  const folder = t.testdir()
  const given = 'x'.repeat(16)
  const { keys, unused } = await open(folder, given)
  t.equal(unused, undefined)
  await keys.keepShown()
  t.equal(await keys.accepts(given), true)
  t.same(await readdir(folder), [])
  for (const bad of [
    '',
    'x'.repeat(15),
    'x'.repeat(257),
    'with a space in it',
    'ümlaut-ümlaut-ümlaut',
    'tab\tabcdefghijklmn'
  ]) {
    await t.rejects(open(folder, bad), { code: 'API_KEY_INVALID' }, JSON.stringify(bad))
  }
})

t.test('in memory a key is made and nothing is written', async (t) => {
  const { keys, unused = '' } = await open(undefined)
  await keys.keepShown()
  t.equal(await keys.accepts(unused), true)
  t.not((await open(undefined)).unused, unused)
})

t.test('a damaged file is refused rather than replaced', async (t) => {
  for (const text of [
    '{',
    '[]',
    '{"keys":[{"sha256":"short"}]}',
    `{"keys":[{"sha256":"${'0'.repeat(64)}","unused":1}]}`,
    '{"keys":{}}'
  ]) {
    const folder = t.testdir()
    await writeFile(join(folder, 'api-keys.json'), text)
    await t.rejects(open(folder), { code: 'API_KEYS_UNREADABLE' }, text)
    t.equal(await readFile(join(folder, 'api-keys.json'), 'utf8'), text)
  }
})

t.test('ids sort by time and do not repeat', async (t) => {
  const at = Date.UTC(2026, 0, 1)
  const ids = Array.from({ length: 200 }, (_, i) => newId('op', at + i * 1000))
  t.same([...ids].sort(), ids)
  t.equal(new Set(Array.from({ length: 1000 }, () => newId('op', at))).size, 1000)
  for (const id of ids) t.match(id, /^op_[0-9A-Za-z]{27}$/)
})
