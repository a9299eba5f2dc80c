import { link, mkdir, readFile, rename, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { EventFolders } from '../../../src/capabilities/events/destinations/folders.js'
import { File } from '../../../src/capabilities/events/destinations/local.js'
import { asker, word } from '../../api/asking.js'
import { SluiceProcess } from '../../cli/process.js'
import { until } from '../../helpers/until.js'
import { folder } from '../../store/opened.js'

const FREE = ['--listen', '127.0.0.1:0', '--api', '127.0.0.1:0']
const parcel = { id: 'ev_1', events: ['{"a":1}'], list: false }

t.test('a file of events lies below a folder for them, and is no file of the service', async (t) => {
  const at = await folder(t)
  const data = join(at, 'data')
  const spared = join(data, 'events')
  const logs = join(at, 'logs')
  const policy = join(logs, 'policy.yaml')
  for (const one of [data, logs]) await mkdir(one)
  const folders = new EventFolders({ folders: [spared, logs, data], own: [data, policy], spared })
  for (const path of ['events/a.log', 'events/b/c.log']) t.equal(folders.refusal(join(data, path)), undefined, path)
  t.equal(folders.refusal(join(logs, 'a.log')), undefined)
  const outside = [
    join(at, 'a.log'),
    '/etc/passwd',
    `${logs}/../a.log`,
    logs,
    `${logs}x/a.log`,
    join(spared, '..', '..', 'a')
  ]
  for (const path of outside) t.match(folders.refusal(path), 'is in no folder for files of events', path)
  for (const path of [join(data, 'sluice.db'), join(data, 'agents', 'key.pem'), policy]) {
    t.match(folders.refusal(path), 'is a file of the service itself', path)
  }
  t.match(EventFolders.none.refusal(join(logs, 'a.log')), 'there are none')
})

t.test('links lead nowhere: not out of the folders, not to other names of a file', async (t) => {
  const at = await folder(t)
  const logs = join(at, 'logs')
  await mkdir(logs)
  await mkdir(join(at, 'elsewhere'))
  const kept = join(at, 'elsewhere', 'kept')
  await writeFile(kept, 'mine\n')
  await symlink(join(at, 'elsewhere'), join(logs, 'out'))
  await symlink(kept, join(logs, 'straight'))
  await symlink(join(at, 'elsewhere', 'new'), join(logs, 'dangling'))
  await symlink(join(logs, 'inside'), join(logs, 'within'))
  await link(kept, join(logs, 'second'))
  const folders = new EventFolders({ folders: [logs], own: [] })
  t.match(folders.refusal(join(logs, 'out', 'kept')), 'through a symbolic link')
  t.match(folders.refusal(join(logs, 'out', 'not-yet')), 'through a symbolic link')
  t.match(folders.refusal(join(logs, 'straight')), 'through a symbolic link')
  const send = async (path: string) => {
    const file = new File(join(logs, path), folders)
    const failure = await file.send(parcel)
    await file.close()
    return failure?.message ?? ''
  }
  for (const path of ['out/kept', 'out/not-yet', 'straight']) t.match(await send(path), 'symbolic link', path)
  for (const path of ['dangling', 'within']) t.match(await send(path), 'links are not followed', path)
  t.match(await send('second'), 'hard link')
  t.equal(await readFile(kept, 'utf8'), 'mine\n')
  await t.rejects(readFile(join(at, 'elsewhere', 'new')), { code: 'ENOENT' })
  await t.rejects(readFile(join(at, 'elsewhere', 'not-yet')), { code: 'ENOENT' })

  const swapped = new File(join(logs, 'day', 'a.log'), folders)
  await mkdir(join(logs, 'day'))
  t.equal(await swapped.send(parcel), undefined)
  await rename(join(logs, 'day'), join(logs, 'yesterday'))
  await symlink(join(at, 'elsewhere'), join(logs, 'day'))
  t.match((await swapped.send(parcel))?.message, 'symbolic link', 'it is looked at each time that the file is opened')
  await swapped.close()
})

async function life(t: Test, cwd: string, more: Record<string, string> = {}) {
  const env = { SLUICE_API_KEY: 'a-key-of-the-administrator', SLUICE_DATA: join(cwd, 'data'), ...more }
  const sluice = new SluiceProcess(t, ['start', ...FREE], { cwd, env })
  const { api } = (await sluice.logged('listening')) as { api: string }
  const { hostname, port } = new URL(api)
  return { sluice, ask: asker(hostname, Number(port)) }
}

t.test('a line that a crash has cut off is ended by the next start, before any event', async (t) => {
  const cwd = t.testdir({ logs: {} })
  const path = join(cwd, 'logs', 'audit.log')
  const missing = join(cwd, 'logs', 'missing.log')
  const settings = { SLUICE_EVENTS_FOLDERS: join(cwd, 'logs') }
  const first = await life(t, cwd, settings)
  for (const target of [{ file: { path } }, { file: { path: missing } }]) {
    const made = await first.ask('/event_destinations', { method: 'POST', body: { target } })
    t.equal(made.status, 201, made.text)
  }
  first.sluice.child.kill('SIGKILL')
  await first.sluice.ended()
  await writeFile(path, '{"a":1}\n{"cut o')
  await life(t, cwd, settings)
  await until(async () => (await readFile(path, 'utf8')).endsWith('\n'))
  t.equal(await readFile(path, 'utf8'), '{"a":1}\n{"cut o\n')
  await t.rejects(readFile(missing), { code: 'ENOENT' }, 'no file is made before an event')
})

t.test('a process takes such paths alone, and starts with a record that it may not serve any more', async (t) => {
  const cwd = t.testdir({ logs: {} })
  const path = join(cwd, 'logs', 'audit.log')
  const named = await life(t, cwd, { SLUICE_EVENTS_FOLDERS: join(cwd, 'logs') })
  const post = (body: object) => named.ask('/event_destinations', { method: 'POST', body })
  const wrong = await post({ target: { file: { path: join(cwd, 'data', 'events', 'a.log') } } })
  t.equal(word(t, wrong), 'FIELD_INVALID')
  t.equal(wrong.json.details.field, 'target.file.path')
  const made = await post({ target: { file: { path } } })
  t.equal(made.status, 201, made.text)
  const change = { method: 'PATCH', body: { target: { file: { path: '/etc/cron.d/x' } } } }
  t.equal(word(t, await named.ask(`/event_destinations/${made.json.id}`, change)), 'FIELD_INVALID')
  const bot = (await named.ask('/bot_users', { method: 'POST', body: { name: 'b' } })).json.id
  const { token } = (await named.ask('/api_keys', { method: 'POST', body: { owner_id: bot } })).json
  const byMember = { method: 'POST', body: { target: { file: { path } } }, key: token }
  t.equal(word(t, await named.ask('/event_destinations', byMember)), 'ADMIN_REQUIRED')
  const test = `/event_destinations/${made.json.id}/test`
  t.match((await named.ask(test, { method: 'POST' })).json, { delivered: true })
  const before = await readFile(path, 'utf8')
  t.match(before, 'test.v0')
  named.sluice.child.kill('SIGTERM')
  await named.sluice.ended()

  const moved = await life(t, cwd)
  const { delivery } = (await moved.ask(`/event_destinations/${made.json.id}`)).json
  t.match(delivery, { state: 'unsupported', reason: 'is in no folder for files of events' })
  t.match((await moved.ask(test, { method: 'POST' })).json, { delivered: false, error: 'option events.folders' })
  const described = { method: 'PATCH', body: { description: 'to be moved' } }
  t.equal((await moved.ask(`/event_destinations/${made.json.id}`, described)).status, 200)
  t.equal(await readFile(path, 'utf8'), before)
  const fresh = { target: { file: { path: join(cwd, 'data', 'events', 'a.log') } } }
  const own = await moved.ask('/event_destinations', { method: 'POST', body: fresh })
  t.equal(own.status, 201, own.text)
  // Deliveries follow the records a moment later.
  for (let looks = 0; looks < 200; looks++) {
    if ((await moved.ask(`/event_destinations/${own.json.id}`)).json.delivery !== null) break
  }
  const delivered = await moved.ask(`/event_destinations/${own.json.id}/test`, { method: 'POST' })
  t.match(delivered.json, { delivered: true }, 'the default folder is made when it is needed')
})
