// Mosca as a program that ends cleanly on SIGTERM: node mosca_server.cjs SETTINGS.json
//
// The settings are those of node_packages.py; `options` are Mosca's own and go to it as they are.

'use strict'

const { readFileSync } = require('node:fs')
const path = require('node:path')
const access = require('./node_access.cjs')

const settings = JSON.parse(readFileSync(process.argv[2], 'utf8'))
const mosca = require(path.join(settings.modules, 'mosca'))

const server = new mosca.Server({
  interfaces: [listener()],
  persistence: { factory: mosca.persistence.Memory },
  ...settings.options
})
server.on('error', problem => {
  console.error(problem.message)
  process.exit(1)
})
if (settings.users) {
  const isRight = access.passwords(settings.users)
  server.authenticate = (client, name, password, done) => done(null, isRight(name, password))
}
if (settings.readable.length || settings.writable.length) {
  server.authorizeSubscribe = (client, topic, done) => done(null, access.isAllowed(settings.readable, topic))
  server.authorizePublish = (client, topic, payload, done) => done(null, access.isAllowed(settings.writable, topic))
}

const tell = (name, value) => server.publish({ topic: `$SYS/${server.id}/${name}`, payload: String(value) })
server.on('ready', () => setInterval(() => {
  tell('publish/received', server.stats.publishedMessages)
  tell('clients/connected', server.stats.connectedClients)
}, settings.statsMs))

for (const signal of ['SIGTERM', 'SIGINT']) {
  process.on(signal, () => server.close(() => {
    console.log('clean shutdown')
    process.exit(0)
  }))
}

function listener () {
  const type = (settings.isFramed ? 'http' : 'mqtt') + (settings.key ? 's' : '')
  const made = { type, host: settings.host, port: settings.port }
  if (!settings.key) return made
  const credentials = { keyPath: settings.key, certPath: settings.certificate }
  if (settings.authority) {
    Object.assign(credentials, { caPaths: [settings.authority], requestCert: true, rejectUnauthorized: true })
  }
  return { ...made, credentials }
}
