import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import bundled from './bundled.cjs'

/**
 * `node config/prepare.mjs`, which npm runs after an installation in a clone: builds `dist`. Where the development packages are left
 * out (`npm ci --omit=dev`), those that end up in the bundle are fetched into a temporary folder, in the versions of
 * `package-lock.json`, and removed again.
 */
const here = dirname(fileURLToPath(import.meta.url))
const root = dirname(here)

function isHere(name) {
  try {
    createRequire(join(root, 'package.json')).resolve(name)
    return true
  } catch {
    return false
  }
}

function run(command, words, options) {
  const { status, error } = spawnSync(command, words, { stdio: 'inherit', ...options })
  if (error !== undefined) throw error
  if (status !== 0) process.exit(status ?? 1)
}

rmSync(join(root, 'dist'), { recursive: true, force: true })
const build = join(here, 'build.mjs')
if (isHere('esbuild') && isHere('fastify')) run(process.execPath, [build, 'dist'], { cwd: root })
else {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-prepare-'))
  try {
    const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
    const lock = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'))
    const dependencies = { ...manifest.dependencies, ...bundled.bundledPackages(manifest) }
    const { name, version, overrides = {} } = manifest
    const own = { name, version, private: true, dependencies, overrides }
    writeFileSync(join(folder, 'package.json'), JSON.stringify(own))
    writeFileSync(join(folder, 'package-lock.json'), JSON.stringify(bundled.reachable(lock, own)))
    const { npm_execpath: npm } = process.env
    const words = ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error', '--include=dev']
    // The settings of the installation that runs this must not leave packages out here.
    const env = { ...process.env, npm_config_omit: '', NODE_ENV: '' }
    if (npm === undefined) run('npm', words, { cwd: folder, env })
    else run(process.execPath, [npm, ...words], { cwd: folder, env })
    run(process.execPath, [build, 'dist', join(folder, 'node_modules')], { cwd: root })
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
