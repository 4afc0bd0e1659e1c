// One minified file of the application and everything it needs, with all names mangled; not in it is what Nest loads on demand.
require('esbuild').buildSync({
  entryPoints: ['dist/main.js'],
  outfile: 'bundle/main.js',
  bundle: true,
  minify: true,
  platform: 'node',
  external: ['@nestjs/microservices', '@nestjs/websockets', '@nestjs/typeorm', '@nestjs/mongoose', '@nestjs/sequelize', '@nestjs/axios',
    '@mikro-orm/core', '@grpc/grpc-js', '@grpc/proto-loader', 'class-transformer', 'class-validator', 'typeorm', 'mongoose', 'sequelize'],
});
