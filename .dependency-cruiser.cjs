/** Folders are being moved: until the last has its place, only what holds in every layout is checked. */
module.exports = {
  permissions: { folders: {}, packages: {}, leaves: {} },
  forbidden: [
    {
      name: 'no-cycle',
      severity: 'error',
      from: {},
      to: { circular: true, viaOnly: { dependencyTypesNot: ['type-only'] } }
    },
    {
      name: 'no-unknown-import',
      severity: 'error',
      from: { path: '^src/' },
      to: { couldNotResolve: true }
    },
    {
      name: 'no-development-package',
      severity: 'error',
      from: { path: '^src/' },
      to: { dependencyTypes: ['npm-dev'], dependencyTypesNot: ['type-only'], pathNot: 'node_modules/@types/' }
    }
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: { exportsFields: ['exports'], conditionNames: ['import', 'node', 'default', 'types'] }
  }
}
