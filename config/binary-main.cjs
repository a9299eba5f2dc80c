// The start of the executable (config/binary.mjs): unpacks what runs from files, then runs the program that the build puts in here.
const { randomBytes } = require('node:crypto')
const fs = require('node:fs')
const { createRequire } = require('node:module')
const os = require('node:os')
const { dirname, join } = require('node:path')
const sea = require('node:sea')

/** Folders in which the files may be kept, the first that can be written wins. */
function places() {
  const { CACHE_DIRECTORY, XDG_CACHE_HOME, HOME } = process.env
  const own = [CACHE_DIRECTORY, XDG_CACHE_HOME, HOME && join(HOME, '.cache')].filter((folder) =>
    folder?.startsWith('/')
  )
  return [...own.map((folder) => join(folder, 'sluice')), join(os.tmpdir(), `sluice-${process.getuid()}`)]
}

/** Code that runs is never taken from a folder that another user can write. */
function isOurs(folder) {
  const { uid, mode } = fs.lstatSync(folder)
  return (uid === process.getuid() || uid === 0) && (mode & 0o022) === 0 && !fs.lstatSync(folder).isSymbolicLink()
}

/** Makes a folder and those above it. The recursive `mkdir` of Node never ends where the system makes no folders (below /proc). */
function makeFolder(folder) {
  if (fs.existsSync(folder)) return
  makeFolder(dirname(folder))
  try {
    fs.mkdirSync(folder, { mode: 0o700 })
  } catch (error) {
    if (error.code !== 'EEXIST') throw error
  }
}

/** Code does not run from each file system: the SQLite library shows it. */
function tryLibrary(place, library) {
  try {
    process.dlopen({ exports: {} }, library)
  } catch (error) {
    if (/failed to map segment/.test(error.message))
      throw new Error(`${place} is on a file system that runs no programs (noexec)`)
  }
}

/** Returns the folder of the unpacked files. It has their digest in its name and appears as a whole, so that processes that start at once agree. */
function unpack() {
  const { digest, files } = JSON.parse(sea.getAsset('manifest', 'utf8'))
  let reason
  for (const place of places()) {
    const folder = join(place, digest)
    try {
      if (fs.existsSync(folder) && isOurs(place) && isOurs(folder)) return folder
      makeFolder(place)
      if (!isOurs(place)) throw new Error(`${place} belongs to another user, or others may write there`)
      const fresh = join(place, `.${digest}-${randomBytes(6).toString('hex')}`)
      try {
        for (const name of Object.keys(files)) {
          fs.mkdirSync(dirname(join(fresh, name)), { recursive: true, mode: 0o700 })
          fs.writeFileSync(join(fresh, name), Buffer.from(sea.getRawAsset(name)), { mode: 0o600 })
        }
        const library = Object.keys(files).find((name) => name.endsWith('.node'))
        tryLibrary(place, join(fresh, library))
        fs.renameSync(fresh, folder)
      } catch (error) {
        fs.rmSync(fresh, { recursive: true, force: true })
        if (!fs.existsSync(folder)) throw error
      }
      return folder
    } catch (error) {
      reason ??= error
    }
  }
  process.stderr.write(
    `sluice: no folder for its files (${reason.message}): let CACHE_DIRECTORY name one that can be written and runs programs\n`
  )
  process.exit(1)
}

const file = join(unpack(), 'dist', 'program.cjs')
const program = undefined
const own = { exports: {} }
program(own.exports, createRequire(file), own, file, dirname(file))
