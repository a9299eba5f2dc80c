import { cp, lstat, mkdir, readdir, readFile, symlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'

const BUNDLE = join('dist-test', 'src')
const IN_BUNDLE = /^(?:main\.js|launch\.mjs|assets|program\.cjs|packages\.json|[a-z-]+\.cjs)$/

/** A copy of the project as `npm ci --omit=dev` leaves it in a clone: manifest, product, and the packages that it needs to run. */
export async function staged(folder: string): Promise<void> {
  for (const file of ['package.json', 'package-lock.json', 'README.md']) await cp(file, join(folder, file))
  for (const part of ['config', join('src', 'api', 'dashboard', 'pages')]) {
    await cp(part, join(folder, part), { recursive: true })
  }
  for (const name of await readdir(BUNDLE)) {
    if (IN_BUNDLE.test(name)) await cp(join(BUNDLE, name), join(folder, 'dist', name), { recursive: true })
  }
}

interface Manifest {
  readonly dependencies?: Readonly<Record<string, string>>
  readonly optionalDependencies?: Readonly<Record<string, string>>
}

/** Puts the packages that the manifest in `folder` needs, and those that they need, there as links; answers their folders. */
export async function withPackages(folder: string): Promise<string[]> {
  const places = new Map<string, string>()
  const add = async (manifest: string): Promise<void> => {
    const { dependencies, optionalDependencies } = JSON.parse(await readFile(manifest, 'utf8')) as Manifest
    for (const name of Object.keys({ ...dependencies, ...optionalDependencies })) {
      const place = join(process.cwd(), 'node_modules', name)
      const found = await readFile(join(place, 'package.json')).catch(() => undefined)
      if (places.has(name) || found === undefined) continue
      places.set(name, place)
      await add(join(place, 'package.json'))
    }
  }
  await add(join(folder, 'package.json'))
  for (const [name, place] of places) {
    const link = join(folder, 'node_modules', name)
    await mkdir(dirname(link), { recursive: true })
    await symlink(place, link)
  }
  return [...places.values()]
}

/** Bytes of all files below a folder. */
export async function sizeOf(folder: string): Promise<number> {
  let sum = 0
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    if (entry.isFile()) sum += (await lstat(join(entry.parentPath, entry.name))).size
  }
  return sum
}
