import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, chown, cp, mkdir, readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import t from 'tap'
import { parse } from 'yaml'
import { optionEntries } from '../../src/options/catalogue.js'
import { freePort } from '../proxy/free-port.js'
import { staged, withPackages } from './staged.js'

const run = promisify(execFile)
const FOLDER = join('config', 'container')
const ROOT = process.getuid?.() === 0

interface Instruction {
  readonly name: string
  readonly text: string
}

/** The instructions of each stage. */
async function stages(): Promise<Instruction[][]> {
  const text = (await readFile(join(FOLDER, 'Containerfile'), 'utf8')).replace(/^#.*\n/gm, '').replace(/\\\n\s*/g, '')
  const found: Instruction[][] = []
  for (const line of text.split('\n').filter((each) => each !== '')) {
    const [, name = '', rest = ''] = /^([A-Z]+) (.*)$/.exec(line) ?? []
    if (name === 'FROM') found.push([])
    found.at(-1)?.push({ name, text: rest })
  }
  return found
}

function only(stage: readonly Instruction[], name: string): string {
  const texts = stage.filter((each) => each.name === name).map(({ text }) => text)
  return texts.length === 1 ? (texts[0] as string) : `${texts.length} times ${name}`
}

t.test('the image has two stages, a user without rights, a health check and a signal', async (t) => {
  const [build = [], image = [], ...more] = await stages()
  t.same(more, [])
  t.match(only(build, 'FROM'), / AS build$/)
  t.equal(only(build, 'RUN'), 'npm ci --omit=dev --no-audit --no-fund')
  t.equal(only(image, 'USER'), '65532:65532')
  t.equal(only(image, 'STOPSIGNAL'), 'SIGTERM')
  t.match(only(image, 'HEALTHCHECK'), /CMD \["node", "\/app\/config\/container\/healthcheck\.mjs"\]$/)
  t.same(
    JSON.parse(only(image, 'ENTRYPOINT')),
    ['node', '/app/dist/main.js'],
    'no shell is between the signal and the process'
  )
  const variables = new Set(optionEntries().map(({ variable }) => variable))
  for (const [name = ''] of only(image, 'ENV').matchAll(/SLUICE_[A-Z_]+(?==)/g)) t.ok(variables.has(name), name)
})

t.test(
  'the last stage runs as a script: as that user, on a read-only root, until the signal',
  { skip: !ROOT && 'only root changes the user' },
  async (t) => {
    const base = t.testdir()
    const [source, app, data] = [join(base, 'src'), join(base, 'app'), join(base, 'data')]
    await mkdir(source)
    await mkdir(app)
    await staged(source)
    await withPackages(source)
    const [, image = []] = await stages()
    for (const { name, text } of image) {
      if (name !== 'COPY') continue
      const [, from = '', to = ''] = /^--from=build \/src\/(\S+) \.\/(\S+)$/.exec(text) ?? []
      t.not(from, '', text)
      await mkdir(dirname(join(app, to)), { recursive: true })
      await cp(join(source, from), join(app, to), { recursive: true, dereference: false })
    }
    const user = Number(only(image, 'USER').split(':')[0])
    await mkdir(data, { mode: 0o700 })
    await chown(data, user, user)
    await chmod(base, 0o755)
    const port = await freePort()
    const env = {
      PATH: process.env.PATH ?? '',
      SLUICE_DATA: data,
      SLUICE_LISTEN: '127.0.0.1:0',
      SLUICE_API_LISTEN: `127.0.0.1:${port}`
    }
    const own = { env, uid: user, gid: user, cwd: data }
    const check = () => run(process.execPath, [join(app, 'config', 'container', 'healthcheck.mjs')], own)
    await t.rejects(check(), { code: 1 }, 'nothing runs yet')

    // What the process may write is its volume alone: all else is read-only, as with --read-only.
    const script =
      'mount --bind "$DATA" "$DATA" && mount -o remount,ro,bind / && exec setpriv --reuid=$ID --regid=$ID --clear-groups -- "$@"'
    const words = [
      '--mount',
      'sh',
      '-c',
      script,
      'sh',
      process.execPath,
      join(app, 'dist', 'main.js'),
      ...JSON.parse(only(image, 'CMD'))
    ]
    const child = spawn('unshare', words, {
      cwd: data,
      env: { ...env, DATA: data, ID: String(user) },
      stdio: ['ignore', 'pipe', 'pipe']
    })
    t.teardown(() => child.kill('SIGKILL'))
    let err = ''
    child.stderr.on('data', (piece) => {
      err += piece
    })
    const ended = once(child, 'close')
    let ready = false
    for await (const line of createInterface({ input: child.stdout })) {
      if (line.includes('"msg":"listening"')) {
        ready = true
        break
      }
    }
    if (!ready && /mount:.*(?:denied|permitted)/.test(err)) {
      t.comment('this machine mounts nothing')
      return
    }
    t.ok(ready, err)
    await check()
    child.kill(only(image, 'STOPSIGNAL') as NodeJS.Signals)
    t.same(await ended, [0, null])
  }
)

t.test('the compose file names what exists, and asks for secrets', async (t) => {
  const { services } = parse(await readFile(join(FOLDER, 'compose.yaml'), 'utf8'))
  const variables = new Set(optionEntries().map(({ variable }) => variable))
  for (const name of Object.keys(services.sluice.environment)) {
    t.ok(variables.has(name) || ['SLUICE_API_KEY', 'SLUICE_SEAL_KEY'].includes(name), name)
  }
  t.match(services.sluice, {
    read_only: true,
    cap_drop: ['ALL'],
    build: { dockerfile: 'config/container/Containerfile' }
  })
  for (const name of ['SLUICE_STORE', 'SLUICE_API_KEY', 'SLUICE_SEAL_KEY'])
    t.ok(String(services.sluice.environment[name]).includes(':?'), name)
})
