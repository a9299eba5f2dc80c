import { execFileSync, spawn } from 'node:child_process'
import { chmod, copyFile, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

/**
 * `node config/build.mjs FOLDER [PACKAGES]`: the product as it is shipped. The sources and the libraries become one file, `program.cjs`, beside it one
 * per thread; `main.js` looks at the release of Node, and `launch.mjs` starts it with what V8 compiled of it here (`program.cache`). Reading a thousand modules one by one
 * and compiling them is most of a start: 1.6 s of CPU without this, 0.7 s with it.
 */
const here = dirname(fileURLToPath(import.meta.url))
const root = dirname(here)
const folder = resolve(process.argv[2] ?? 'dist')
/** A folder `node_modules` beside that of the project, with what is not installed there. */
const packages = process.argv[3] === undefined ? [] : [resolve(process.argv[3])]
const find = createRequire(packages[0] === undefined ? import.meta.url : join(packages[0], 'x.js'))
const { build } = find('esbuild')

/** What runs on its own: the name of the file in FOLDER, and the source that it begins with. */
const ENTRIES = {
  program: 'src/main.ts',
  worker: 'src/capabilities/workers/worker.ts',
  'sqlite-worker': 'src/store/sqlite-worker.ts',
  'sqlite-copy-thread': 'src/store/sqlite-copy-thread.ts',
  thread: 'src/lib/http-client/thread.ts',
  'replace-thread': 'src/features/body-replace/replace-thread.ts',
  'hash-thread': 'src/features/basic-auth/hash-thread.ts',
  'rules-thread': 'src/features/waf/rules-thread.ts',
  'saml-thread': 'src/features/login/saml/saml-thread.ts'
}

/** They bring files that are read from their own folders: a compiled library and a database. */
const BESIDE = ['libsql', '@ip-location-db/*']

/** Not in the bundle: `debug` tries to load it, and whether it is there depends on the tools of tests. */
const LEFT_OUT = ['supports-color']

/** Files of packages that pages need: what a package exports, and a file beside it (`shippedFile` finds it). */
const SWAGGER = ['swagger-ui.css', 'swagger-ui-bundle.js', 'favicon-32x32.png', 'index.css']
const ASSETS = [
  ...SWAGGER.map((name) => ['@fastify/swagger-ui/static/swagger-ui.css', name]),
  ['htm', 'htm.module.js'],
  ['preact', 'preact.module.js'],
  ['preact/hooks', 'hooks.module.js'],
  ['uplot', 'uPlot.iife.min.js'],
  ['uplot', 'uPlot.min.css']
]

/** How long the first start may take. Milliseconds. */
const LONGEST = 60_000

const URL_OF_FILE = "const importMetaUrl = require('node:url').pathToFileURL(__filename).href;"

const bundled = new Set()
for (const [name, source] of Object.entries(ENTRIES)) {
  // The launcher runs the program itself, and would have to copy all of it to wrap it as Node does.
  const wrapped = name === 'program'
  const { metafile } = await build({
    absWorkingDir: root,
    entryPoints: [source],
    metafile: true,
    outfile: join(folder, `${name}.cjs`),
    bundle: true,
    platform: 'node',
    target: 'node20',
    // Only a script, not a module, can be started with what V8 has compiled before.
    format: 'cjs',
    define: { 'import.meta.url': 'importMetaUrl', SLUICE_COMMIT: JSON.stringify(commit()) },
    banner: { js: `${wrapped ? '(function (exports, require, module, __filename, __dirname) {' : ''}${URL_OF_FILE}` },
    footer: { js: wrapped ? '})' : '' },
    external: [...BESIDE, ...LEFT_OUT],
    nodePaths: packages,
    // Names of classes stand in logs.
    keepNames: true,
    legalComments: 'none',
    logLevel: 'warning'
  })
  note(Object.keys(metafile.inputs))
  await forgetFolders(join(folder, `${name}.cjs`), Object.keys(metafile.inputs))
}
// Patterns and comments are left as they are written. The launcher reads one byte for one character. A pattern whose `source` is
// published is written as a text, whose value this does not change.
const program = join(folder, 'program.cjs')
const text = withNames(await readFile(program, 'utf8'))
const escaped = (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
await writeFile(program, text.replace(/[\u0080-\uffff]/g, escaped))
for (const [library, name] of ASSETS) {
  const to = join(folder, 'assets', library, name)
  await mkdir(dirname(to), { recursive: true })
  await copyFile(join(dirname(find.resolve(library)), name), to)
}
// Pages of capabilities are in their folders; they are served as they are written.
for (const capability of await readdir(join(root, 'src', 'capabilities'))) {
  const from = join(root, 'src', 'capabilities', capability)
  const files = capability.includes('.') ? [] : await readdir(from)
  for (const name of files.filter((file) => /^page(-[a-z-]+)?\.js$/.test(file))) {
    const to = join(folder, 'assets', 'pages', capability, name)
    await mkdir(dirname(to), { recursive: true })
    await copyFile(join(from, name), to)
  }
}
// The editor of policies comes in many modules, which a browser would load one by one.
const { metafile } = await build({
  absWorkingDir: root,
  metafile: true,
  entryPoints: ['src/api/dashboard/codemirror.js'],
  outfile: join(folder, 'assets', 'codemirror', 'codemirror.js'),
  bundle: true,
  minify: true,
  platform: 'browser',
  target: 'es2022',
  format: 'esm',
  nodePaths: packages,
  legalComments: 'none',
  logLevel: 'warning'
})
note(Object.keys(metafile.inputs))
note(ASSETS.map(([library]) => `node_modules/${library}/`))
// What is inside, for the bill of materials of an executable.
await writeFile(join(folder, 'packages.json'), `${JSON.stringify([...bundled].sort(), undefined, 2)}\n`)
const main = join(folder, 'main.js')
await copyFile(join(here, 'launcher.mjs'), main)
await copyFile(join(here, 'launch.mjs'), join(folder, 'launch.mjs'))
await chmod(main, 0o755)
await record()

/**
 * Only classes and functions that have another name now get theirs back, once for each. A closure is made for every request, and naming it costs
 * more than making it; a prototype is made for each function that is asked for one.
 */
function withNames(text) {
  const helper =
    /(var __name = \((\w+), (\w+)\) => )(__defProp\(\2, "name", \{ (?:value|value: \3), configurable: true \}\));/
  if (!helper.test(text)) throw new Error('esbuild writes its helper for names in another way')
  return text
    .replace(helper, '$1$2.prototype === undefined ? $2 : $4;')
    .replace(/^\s*__name\(([\w$]+), "\1"\);\n/gm, '')
    .replace(
      /((?:\bclass |\b(?=[\w$]+ = class ))([\w$]+) (?:= class )?(?:extends [^{}]+ )?\{\n)\s*static \{\n\s*__name\(this, "\2"\);\n\s*\}\n/g,
      '$1'
    )
}

/** Names packages of other folders as if they were in the project: the same sources give the same bytes, wherever the packages are. */
async function forgetFolders(file, inputs) {
  const folders = new Set(inputs.map((name) => /^(.*?)node_modules\//.exec(name)?.[1]))
  let text = await readFile(file, 'utf8')
  for (const place of folders) if (place) text = text.replaceAll(`${place}node_modules/`, 'node_modules/')
  await writeFile(file, text)
}

/** Keeps the packages that files of a bundle came from. */
function note(files) {
  for (const file of files) {
    const place = /(?:^|\/)(node_modules\/(?:.*\/node_modules\/)?(?:@[^/]+\/)?[^/]+)\//.exec(file)?.[1]
    if (place !== undefined) bundled.add(place)
  }
}

/** The commit that is built: SLUICE_COMMIT, or the one of the clone. Empty where there is neither, as in an unpacked package. */
function commit() {
  const { SLUICE_COMMIT: given } = process.env
  if (given) return given
  try {
    const words = ['-C', root, 'rev-parse', '--short=12', 'HEAD']
    return execFileSync('git', words, { stdio: ['ignore', 'pipe', 'ignore'], encoding: 'utf8' }).trim()
  } catch {
    return ''
  }
}

/** Starts the product once in an empty folder, and keeps what was compiled for it. Without that it starts too, only slower. */
async function record() {
  // V8 knows a source by its length: what it made of another one of the same length would run in its place.
  await rm(join(folder, 'program.cache'), { force: true })
  const data = await mkdtemp(join(tmpdir(), 'sluice-build-'))
  try {
    const environment = Object.entries(process.env).filter(([name]) => !/^(SLUICE_|NODE_OPTIONS$)/.test(name))
    const words = ['start', '--listen', '127.0.0.1:0', '--api', '127.0.0.1:0', '--data', join(data, 'data')]
    const child = spawn(process.execPath, [join(here, 'record.mjs'), main, join(folder, 'program.cache'), ...words], {
      cwd: data,
      env: Object.fromEntries(environment),
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: LONGEST
    })
    let output = ''
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text) => {
        output += text
        // Once: a second signal stops it at once, without what was compiled.
        if (!child.killed && output.includes('"msg":"listening"')) child.kill('SIGTERM')
      })
    }
    const code = await new Promise((ended) => child.once('close', ended))
    if (code !== 0)
      process.stderr.write(`each start will take longer, for a first one here ended with ${code}:\n${output}\n`)
  } finally {
    await rm(data, { recursive: true, force: true })
  }
}
