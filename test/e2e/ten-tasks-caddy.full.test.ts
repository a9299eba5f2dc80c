import { spawnSync } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { makeServerCertificate } from '../../src/lib/self-signed.js'
import { tasksOf } from './ten-tasks.js'

const { error, stdout = '' } = spawnSync('caddy', ['version'], { encoding: 'utf8' })
const skip = error !== undefined ? 'caddy is not installed' : false

t.test('Caddy accepts its files, but for those that need a plugin', { skip }, async (t) => {
  t.comment(stdout)
  const cwd = t.testdir({})
  await mkdir(join(cwd, 'tls'))
  const { cert, key } = await makeServerCertificate('CN=shop', ['shop.example.com'], {
    now: Date.now(),
    life: 86_400_000
  })
  await Promise.all([writeFile(join(cwd, 'tls/shop.pem'), cert), writeFile(join(cwd, 'tls/shop.key'), key)])
  let read = 0
  for (const { title, files } of await tasksOf('ten-tasks.md')) {
    const caddyfile = files.get('Caddyfile') ?? ''
    if (caddyfile.startsWith('# with the plugin')) continue
    await writeFile(join(cwd, 'Caddyfile'), caddyfile)
    const env = { ...process.env, HOME: cwd, XDG_DATA_HOME: cwd, XDG_CONFIG_HOME: cwd }
    const validated = spawnSync('caddy', ['validate', '--config', 'Caddyfile'], { cwd, env, encoding: 'utf8' })
    t.equal(validated.status, 0, `${title}: ${validated.stderr}`)
    read++
  }
  t.equal(read, 11)
})
