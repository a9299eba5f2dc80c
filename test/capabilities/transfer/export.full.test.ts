import { readFile, stat } from 'node:fs/promises'
import { request } from 'node:http'
import { join } from 'node:path'
import t from 'tap'
import { SluiceProcess } from '../../cli/process.js'
import { until } from '../../helpers/until.js'
import { startPostgres } from '../../store/postgres-server.js'
import { folder, SITE, sealerIn, sluice, withStore } from './transfer-stand.js'
import { everything, PASSPHRASE } from './transfers.js'

const KEY = 'a-key-of-the-administrator'

const server = await startPostgres(t)

t.test('an account moves with its secrets from a file to PostgreSQL and back, byte by byte', async (t) => {
  const url = await server.database()
  const { cwd, data } = await folder(t, '')
  const back = join(cwd, 'back')
  const seal = await sealerIn(data)
  await withStore(t, join(data, 'sluice.db'), async (store) => {
    await everything(store, seal)
  })
  const env = { SLUICE_PASSPHRASE: PASSPHRASE }
  const run = async (words: string[], variables: Record<string, string> = env) => {
    const { code, err, out } = await sluice(t, cwd, words, variables)
    t.same([code, err], [0, ''], words.join(' '))
    return out
  }
  const [first, second] = [join(cwd, 'first.yaml'), join(cwd, 'second.yaml')]
  await run(['export', '--with-secrets', '--output', first, '--data', data])
  t.equal((await stat(first)).mode & 0o777, 0o600)
  t.match(await readFile(first, 'utf8'), /^ +cost: 131072$/m, 'a guess costs 128 MiB and a third of a second')
  const missing = await sluice(t, cwd, ['import', first, '--yes', '--data', back])
  t.same(
    [missing.code, missing.err],
    [1, 'nothing was imported: no terminal to ask for the passphrase: set SLUICE_PASSPHRASE']
  )
  const wrong = await sluice(t, cwd, ['import', first, '--yes', '--data', back], { SLUICE_PASSPHRASE: 'not the one' })
  t.same(
    [wrong.code, wrong.err],
    [
      1,
      'nothing was imported: the passphrase does not open the secrets of this document; give the passphrase of the export'
    ]
  )
  await run(['import', first, '--yes', '--store', url, '--data', join(cwd, 'pg')])
  await run(['export', '--with-secrets', '--output', second, '--store', url, '--data', join(cwd, 'pg')])
  await run(['import', second, '--yes', '--data', back])
  const plain = await run(['export', '--data', data])
  t.equal(await run(['export', '--store', url, '--data', join(cwd, 'pg')]), plain)
  t.equal(await run(['export', '--data', back]), plain)
  t.match(plain, /^# A whole Sluice account.*\n# Secrets are left out; `withheld` names them, in 8 records/)
  t.notMatch(await readFile(first, 'utf8'), PASSPHRASE)
})

t.test('a process on PostgreSQL serves what was imported', async (t) => {
  const url = await server.database()
  const { cwd, data, file } = await folder(t, SITE)
  const env = { SLUICE_API_KEY: KEY, SLUICE_LIMITER_BUDGET: '64MiB', SLUICE_DATA: data, SLUICE_STORE: url }
  const running = new SluiceProcess(t, ['start', '--listen', '127.0.0.1:0', '--api', '127.0.0.1:0'], { cwd, env })
  const { traffic } = (await running.logged('listening')) as { traffic: string }
  t.equal(await statusOf(traffic), 404)
  const { code, err } = await sluice(t, cwd, ['import', file, '--partial', '--yes'], {
    SLUICE_DATA: data,
    SLUICE_STORE: url
  })
  t.equal(code, 0, err)
  const end = performance.now() + 5000
  await until(async () => (await statusOf(traffic)) === 299 || performance.now() > end)
  t.equal(await statusOf(traffic), 299)
  const rotating = await sluice(t, cwd, ['seal', 'rotate'], { SLUICE_DATA: data, SLUICE_STORE: url })
  t.equal(rotating.code, 1)
  t.match(rotating.err, /proc_\w+ runs on this store; stop every process on it first/)
})

function statusOf(traffic: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const asked = request(traffic, { headers: { host: 'shop.example.com' } }, (response) => {
      response.resume()
      resolve(response.statusCode ?? 0)
    })
    asked.once('error', reject).end()
  })
}
