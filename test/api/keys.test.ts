import { readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { createKey, openKeys } from '../../src/api/keys.js'
import { systemClock } from '../../src/lib/clock.js'
import { newId } from '../../src/lib/id.js'

t.test('the first start makes a key, later ones use it', async (t) => {
  const folder = join(t.testdir(), 'data')
  const first = await openKeys(folder, undefined, systemClock)
  const key = first.created ?? ''
  t.match(key, /^sluice_[A-Za-z0-9_-]{43}$/)
  t.equal(await first.keys.accepts(key), true)
  t.equal(await first.keys.accepts(`${key}x`), false)
  const second = await openKeys(folder, undefined, systemClock)
  t.equal(second.created, undefined)
  t.equal(await second.keys.accepts(key), true)
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

t.test('a key made meanwhile by another process counts at once', async (t) => {
  const folder = t.testdir()
  const { keys, created = '' } = await openKeys(folder, undefined, systemClock)
  const other = await createKey(folder, systemClock)
  t.equal(await keys.accepts(other), true)
  t.equal(await keys.accepts(created), true, 'the first one still counts')
})

t.test('the key of the environment makes no file and is checked', async (t) => {
  const folder = t.testdir()
  const given = 'x'.repeat(16)
  const { keys, created } = await openKeys(folder, given, systemClock)
  t.equal(created, undefined)
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
    await t.rejects(openKeys(folder, bad, systemClock), { code: 'API_KEY_INVALID' }, JSON.stringify(bad))
  }
})

t.test('in memory a key is made and nothing is written', async (t) => {
  const { keys, created = '' } = await openKeys(undefined, undefined, systemClock)
  t.equal(await keys.accepts(created), true)
  t.equal((await openKeys(undefined, undefined, systemClock)).created === created, false)
})

t.test('a damaged file is refused rather than replaced', async (t) => {
  for (const text of ['{', '[]', '{"keys":[{"sha256":"short"}]}', '{"keys":{}}']) {
    const folder = t.testdir()
    await writeFile(join(folder, 'api-keys.json'), text)
    await t.rejects(openKeys(folder, undefined, systemClock), { code: 'API_KEYS_UNREADABLE' }, text)
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
